"""What can be chosen, as frozen values: nothing here imports torch, numpy or PyAV.

The command line, a configuration file and the Python API all end in these dataclasses, so help and
validation need none of the heavy packages.
"""

from __future__ import annotations

from vidcap.settings.methods import (
    DEFAULT_METHOD,
    METHODS,
    VISKIP_THRESHOLD,
    method_settings,
    part_owners,
)
from vidcap.settings.model import (
    AttentionName,
    ModelSettings,
    PositionPolicy,
    QuantizeName,
)
from vidcap.settings.request import (
    DEFAULT_DESCRIBE_PROMPT,
    GenerationSettings,
    VideoSettings,
)
from vidcap.settings.speculation import (
    PART_RANGES,
    ArmName,
    DraftName,
    LooseName,
    PrefillName,
    PruneName,
    SpeculationSettings,
    TreeName,
)

__all__ = [
    "DEFAULT_DESCRIBE_PROMPT",
    "DEFAULT_METHOD",
    "METHODS",
    "PART_RANGES",
    "VISKIP_THRESHOLD",
    "ArmName",
    "AttentionName",
    "DraftName",
    "GenerationSettings",
    "LooseName",
    "ModelSettings",
    "PositionPolicy",
    "PrefillName",
    "PruneName",
    "QuantizeName",
    "SpeculationSettings",
    "TreeName",
    "VideoSettings",
    "method_settings",
    "part_owners",
]
