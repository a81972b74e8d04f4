"""Who judges the drafts."""

from vidcap.engine.verify.base import Accepted, Verdict, Verifier
from vidcap.engine.verify.sampling import LosslessSampling
from vidcap.engine.verify.strict import StrictGreedy

__all__ = ["Accepted", "LosslessSampling", "StrictGreedy", "Verdict", "Verifier"]
