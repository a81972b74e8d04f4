"""Who proposes drafts."""

from vidcap.engine.draft.adaptive import AdaptiveDrafter
from vidcap.engine.draft.arms import Arm, ArmsDrafter
from vidcap.engine.draft.auto import AutoDrafter
from vidcap.engine.draft.base import Drafter, NoDraft
from vidcap.engine.draft.choose import Chooser
from vidcap.engine.draft.dynamic import DynamicDrafter, DynamicSettings
from vidcap.engine.draft.entropy import EntropyShape
from vidcap.engine.draft.lookup import Lookup, LookupDrafter, WithLookup
from vidcap.engine.draft.pair import PairDrafter
from vidcap.engine.draft.source import DraftSource, PairSource, SelfSource
from vidcap.engine.draft.startup import StartupDrafter
from vidcap.engine.draft.views import DraftViews, View
from vidcap.engine.draft.viskip import ViSkip
from vidcap.engine.round import Proposal

__all__ = [
    "AdaptiveDrafter",
    "Arm",
    "ArmsDrafter",
    "AutoDrafter",
    "Chooser",
    "DraftSource",
    "DraftViews",
    "Drafter",
    "DynamicDrafter",
    "DynamicSettings",
    "EntropyShape",
    "Lookup",
    "LookupDrafter",
    "NoDraft",
    "PairDrafter",
    "PairSource",
    "Proposal",
    "SelfSource",
    "StartupDrafter",
    "ViSkip",
    "View",
    "WithLookup",
]
