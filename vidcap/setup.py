"""Which pair runs and how: what a captioner, its sessions and their records agree on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from vidcap.models.pair import PairFolders
from vidcap.output.record import ModelPart
from vidcap.settings import (
    GenerationSettings,
    ModelSettings,
    SpeculationSettings,
    VideoSettings,
)

if TYPE_CHECKING:
    from vidcap.engine.policy import Policy
    from vidcap.models.loading import LoadedPair


@dataclass(frozen=True, slots=True)
class LoadedModels:
    """A loaded pair and what is known from running it.

    Attributes:
        pair: both models.
        policy: what method ``auto`` has learnt about them; it learns from every answer.
        load_s: seconds that loading took.
    """

    pair: LoadedPair
    policy: Policy
    load_s: float


@dataclass(frozen=True, slots=True)
class Setup:
    """A pair and its settings, known before anything is loaded.

    Attributes:
        folders: the pair on disk.
        model, video, generation, speculation: as on the command line.
    """

    folders: PairFolders
    model: ModelSettings
    video: VideoSettings
    generation: GenerationSettings
    speculation: SpeculationSettings

    def settings_hash(self, prompt: str) -> str:
        """Equal for runs whose settings and prompt give the same text.

        Threads, devices, attention kernels and, while decoding is greedy, the method are left out:
        a strict method changes the speed only. Loose methods change the text, and samples depend on
        the order in which random numbers are used up: there it counts.
        """
        relevant: dict[str, Any] = {
            "prompt": prompt,
            "target": self.folders.target_name,
            "revision": self.model.revision,
            "dtype": self.model.dtype,
            # Named only where it is used, so that older results stay valid.
            **({"quantize": self.model.quantize} if self.model.quantize != "none" else {}),
            "positions": self.model.positions,
            "video": asdict(self.video),
            "generation": asdict(self.generation),
        }
        if self.generation.temperature > 0 or self.speculation.verify == "loose":
            relevant["speculation"] = asdict(self.speculation)
        text = json.dumps(relevant, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def shares_tower(self, pair: LoadedPair) -> bool:
        """Whether the draft's visual features come from the target's run of the vision tower."""
        return pair.tower is not None and self.speculation.shares_tower

    def model_part(self, pair: LoadedPair | None) -> ModelPart:
        """What a record says about the models; of a pair that is not loaded, less."""
        drafts = self.speculation.needs_draft
        return ModelPart(
            pair=self.folders.name,
            target=self.folders.target_name,
            draft=self.folders.draft_name if drafts else None,
            device=pair.device if pair else None,
            dtype=pair.dtype if pair else None,
            attention=pair.attention if pair else None,
            positions=self.model.positions,
            shared_tower=self.shares_tower(pair) if pair and drafts else None,
            tensor_parallel=self.model.tensor_parallel,
        )
