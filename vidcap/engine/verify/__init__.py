"""Who judges the drafts."""

from vidcap.engine.round import Accepted
from vidcap.engine.verify.base import Verdict, Verifier
from vidcap.engine.verify.loose import (
    FLyRule,
    Guards,
    LooseGreedy,
    LooseRule,
    LVSpecRule,
    RandomRule,
    Reading,
)
from vidcap.engine.verify.sampling import LosslessSampling
from vidcap.engine.verify.strict import StrictGreedy

__all__ = [
    "Accepted",
    "FLyRule",
    "Guards",
    "LVSpecRule",
    "LooseGreedy",
    "LooseRule",
    "LosslessSampling",
    "RandomRule",
    "Reading",
    "StrictGreedy",
    "Verdict",
    "Verifier",
]
