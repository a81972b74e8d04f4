"""Who proposes drafts."""

from vidcap.engine.draft.base import Drafter, NoDraft, Proposal
from vidcap.engine.draft.pair import PairDrafter

__all__ = ["Drafter", "NoDraft", "PairDrafter", "Proposal"]
