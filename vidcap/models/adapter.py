"""What the adapters of all families share: prompts, positions, the released forward's inputs."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from vidcap.engine.model import EncodedPrefix, LanguageModel
from vidcap.engine.positions import reference_positions
from vidcap.engine.shards import Shards
from vidcap.errors import UsageError
from vidcap.models.checkpoint import Checkpoint
from vidcap.models.protocol import VideoInputs
from vidcap.models.released import ReleasedLanguageModel, capture_text_inputs
from vidcap.models.strict_tokens import fact_token_ids, strict_token_ids
from vidcap.models.trunk import TowerNames
from vidcap.settings import AttentionName, PositionPolicy


class ReleasedVideoModel:
    """A released ``ForConditionalGeneration`` model as a ``VideoModel`` of the protocol.

    A family overrides what differs: which tensors its processor makes (:attr:`tensor_names`), what
    its forward wants beside them (:meth:`arguments`), which placeholders show something
    (:meth:`_visual`), its grid and its prompt.

    Attributes:
        checkpoint: what the model was loaded from.
        model: the released model.
        processor, tokenizer: the checkpoint's.
        rules: what the checkpoint says about its tokens.
        language: the text half.
    """

    #: What the processor makes of a video, by the names of the forward's arguments.
    tensor_names: ClassVar[tuple[str, ...]]

    #: Parts of the vision tower, None where a draft cannot take over the target's.
    tower_names: ClassVar[TowerNames | None] = None

    def __init__(
        self,
        checkpoint: Checkpoint,
        model: Any,
        attention: AttentionName = "auto",
        shards: Shards | None = None,
    ):
        """Args:
        checkpoint: everything but the weights.
        model: as loaded from it; its generation settings are replaced by the neutral ones.
        attention: see :class:`vidcap.settings.ModelSettings`.
        shards: the ranks that share its layers, None where it is whole.
        """
        self.checkpoint = checkpoint
        self.model = model
        self.processor = checkpoint.processor
        self.tokenizer = checkpoint.tokenizer
        self.rules = checkpoint.rules
        model.generation_config = checkpoint.neutral_generation()
        self.language: LanguageModel = self._language(model, attention, shards)
        self._control_tokens = sorted(self.tokenizer.get_added_vocab(), key=len, reverse=True)

    @cached_property
    def strict_ids(self) -> frozenset[int]:
        """See :class:`vidcap.models.protocol.VideoModel`."""
        return strict_token_ids(self.tokenizer)

    @cached_property
    def fact_ids(self) -> frozenset[int]:
        """See :class:`vidcap.models.protocol.VideoModel`."""
        return fact_token_ids(self.tokenizer)

    @property
    def template(self) -> str:
        """See :class:`vidcap.models.protocol.VideoModel`."""
        return self._render("")

    @property
    def preprocessing(self) -> str:
        """See :class:`vidcap.models.protocol.VideoModel`."""
        kind = type(self.processor).__name__
        return kind + self.processor.video_processor.to_json_string() + self._render("")

    def prepare(self, rgb: np.ndarray, fps: float, start_s: float = 0.0) -> VideoInputs:
        """See :class:`vidcap.models.protocol.VideoModel`."""
        from transformers.video_utils import VideoMetadata

        frames = torch.from_numpy(rgb).permute(0, 3, 1, 2)
        count = len(frames)
        # What the processors call a number of a frame is its time at this rate.
        numbers: list[Any] = [start_s * fps + index for index in range(count)]
        metadata = VideoMetadata(total_num_frames=count, fps=fps, frames_indices=numbers)
        features = self.processor(
            text=[self._render("")],
            videos=[frames],
            video_metadata=[metadata],
            do_sample_frames=False,
            do_resize=False,
            return_tensors="pt",
        )
        ids = features["input_ids"]
        last = int((ids[0] == self._video_id).nonzero()[-1])
        tensors = self._tensors(features, fps)
        prefix = ids[:, : last + 1]
        return VideoInputs(prefix, tensors, int(self._visual(prefix).sum()))

    def arguments(self, ids: Tensor, inputs: VideoInputs) -> dict[str, Any]:
        """Arguments of the released forward, and of ``generate``, besides positions.

        Args:
            ids: Long[1, n] a prompt that begins with the video's.
            inputs: the preprocessed video.
        """
        tensors = {name: inputs.tensors[name].to(ids.device) for name in self.tensor_names}
        return {"input_ids": ids, **tensors}

    def encode(self, inputs: VideoInputs, positions: PositionPolicy) -> EncodedPrefix:
        """See :class:`vidcap.models.protocol.VideoModel`."""
        # One text token behind the video shows where the release lets text go on.
        probe = torch.tensor([[min(self.rules.stop_ids)]])
        ids = torch.cat([inputs.ids, probe], dim=1).to(self.language.kv_spec.device)
        captured = capture_text_inputs(self.model, self.arguments(ids, inputs))
        visual = self._visual(ids)
        position_ids = self._positions(captured, ids)
        if positions == "reference" and position_ids.dim() == 3:
            position_ids = reference_positions(position_ids, visual)
        return EncodedPrefix(
            ids=ids[:, :-1],
            embeds=captured["inputs_embeds"][:, :-1],
            position_ids=position_ids[..., :-1],
            visual_index=visual[0, :-1].nonzero().flatten(),
            suffix_start=int(position_ids[..., -1].max()),
            grid=self._grid(inputs),
            deepstack=tuple(item[None] for item in captured.get("deepstack_visual_embeds") or ()),
        )

    def suffix_ids(self, prompt: str) -> Tensor:
        """See :class:`vidcap.models.protocol.VideoModel`."""
        for token in self._control_tokens:
            if token in prompt:
                raise UsageError(f"the prompt contains the model's control token {token}")
        ids: Tensor = self.tokenizer(
            self._suffix(prompt), add_special_tokens=False, return_tensors="pt"
        ).input_ids
        return ids

    def _tensors(self, features: Any, fps: float) -> dict[str, Tensor]:
        """What the forward takes, from what the processor made."""
        return {name: features[name] for name in self.tensor_names}

    @property
    def _video_id(self) -> int:
        video_id: int = self.model.config.video_token_id
        return video_id

    def _language(
        self, model: Any, attention: AttentionName, shards: Shards | None
    ) -> ReleasedLanguageModel:
        return ReleasedLanguageModel(model, attention=attention, shards=shards)

    def _visual(self, ids: Tensor) -> Tensor:
        """bool[b, n] True where a token shows a part of the video."""
        return ids == self._video_id

    def _positions(self, captured: dict[str, Any], ids: Tensor) -> Tensor:
        """Long[3, b, n] as the release computes them, or Long[b, n] where it counts tokens."""
        positions: Tensor = captured["position_ids"][-3:]
        return positions

    def _grid(self, inputs: VideoInputs) -> tuple[int, int, int] | None:
        """Visual tokens in time, height and width."""
        merge = self.model.config.vision_config.spatial_merge_size
        time, height, width = inputs.tensors["video_grid_thw"][0].tolist()
        return time, height // merge, width // merge

    def _render(self, prompt: str) -> str:
        """The whole prompt with one placeholder for the video."""
        return self.checkpoint.render(prompt)

    def _suffix(self, prompt: str) -> str:
        """The text behind the last visual token."""
        return self._render(prompt).rpartition(self.processor.video_token)[2]
