"""Qwen2.5-VL through the released classes of transformers."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vidcap.engine.model import EncodedPrefix
from vidcap.engine.positions import reference_positions
from vidcap.errors import ModelError, UsageError
from vidcap.models.patch_embed import LinearPatchEmbed
from vidcap.models.protocol import TokenRules, VideoInputs
from vidcap.models.released import ReleasedLanguageModel, capture_text_inputs
from vidcap.models.strict_tokens import strict_token_ids
from vidcap.settings import PositionPolicy

_VIDEO_TOKEN_TYPE = 2


class Qwen25VL:
    """Satisfies :class:`vidcap.models.protocol.VideoModel`.

    Attributes:
        model: the released ``Qwen2_5_VLForConditionalGeneration``.
        processor: its ``Qwen2_5_VLProcessor``.
        tokenizer: the processor's tokenizer.
    """

    def __init__(self, folder: Path, model: Any, processor: Any):
        """Args:
        folder: where the checkpoint lies, for messages.
        model, processor: as loaded from it.
        """
        self.model = model
        self.processor = processor
        self.tokenizer = processor.tokenizer
        self._folder = folder
        model.model.visual.patch_embed = LinearPatchEmbed(model.model.visual.patch_embed)
        self.language = ReleasedLanguageModel(model)
        self.rules = self._read_rules()
        self._control_tokens = sorted(self.tokenizer.get_added_vocab(), key=len, reverse=True)

    @cached_property
    def strict_ids(self) -> frozenset[int]:
        """See :class:`vidcap.models.protocol.VideoModel`."""
        return strict_token_ids(self.tokenizer)

    @property
    def template(self) -> str:
        """See :class:`vidcap.models.protocol.VideoModel`."""
        return self._render("")

    @property
    def preprocessing(self) -> str:
        """See :class:`vidcap.models.protocol.VideoModel`."""
        return self.processor.video_processor.to_json_string() + self._render("")

    def prepare(self, rgb: np.ndarray, fps: float) -> VideoInputs:
        """See :class:`vidcap.models.protocol.VideoModel`."""
        from transformers.video_utils import VideoMetadata

        frames = torch.from_numpy(rgb).permute(0, 3, 1, 2)
        count = len(frames)
        metadata = VideoMetadata(total_num_frames=count, fps=fps, frames_indices=list(range(count)))
        features = self.processor(
            text=[self._render("")],
            videos=[frames],
            video_metadata=[metadata],
            do_sample_frames=False,
            do_resize=False,
            return_tensors="pt",
        )
        ids = features["input_ids"]
        visual = (ids[0] == self.model.config.video_token_id).nonzero().flatten()
        names = ("pixel_values_videos", "video_grid_thw", "second_per_grid_ts")
        tensors = {name: torch.as_tensor(features[name]) for name in names}
        return VideoInputs(ids[:, : int(visual[-1]) + 1], tensors, len(visual))

    def encode(self, inputs: VideoInputs, positions: PositionPolicy) -> EncodedPrefix:
        """See :class:`vidcap.models.protocol.VideoModel`."""
        device = self.language.kv_spec.device
        # One text token behind the video shows where the release lets text go on.
        probe = torch.tensor([[self.model.config.vision_end_token_id]])
        ids = torch.cat([inputs.ids, probe], dim=1).to(device)
        visual = ids == self.model.config.video_token_id
        tensors = {name: tensor.to(device) for name, tensor in inputs.tensors.items()}
        arguments = {
            "input_ids": ids,
            "mm_token_type_ids": visual.to(torch.int32) * _VIDEO_TOKEN_TYPE,
            **tensors,
        }
        captured = capture_text_inputs(self.model, arguments)
        position_ids = captured["position_ids"][-3:]
        if positions == "reference":
            position_ids = reference_positions(position_ids, visual)
        return EncodedPrefix(
            ids=ids[:, :-1],
            embeds=captured["inputs_embeds"][:, :-1],
            position_ids=position_ids[..., :-1],
            visual_index=visual[0, :-1].nonzero().flatten(),
            suffix_start=int(position_ids[..., -1].max()),
            grid=self._merged_grid(inputs.tensors["video_grid_thw"]),
        )

    def suffix_ids(self, prompt: str) -> Tensor:
        """See :class:`vidcap.models.protocol.VideoModel`."""
        for token in self._control_tokens:
            if token in prompt:
                raise UsageError(f"the prompt contains the model's control token {token}")
        suffix = self._render(prompt).rpartition(self.processor.video_token)[2]
        ids: Tensor = self.tokenizer(
            suffix, add_special_tokens=False, return_tensors="pt"
        ).input_ids
        return ids

    def _merged_grid(self, grid: Tensor) -> tuple[int, int, int]:
        merge = self.model.config.vision_config.spatial_merge_size
        time, height, width = grid[0].tolist()
        return time, height // merge, width // merge

    def _render(self, prompt: str) -> str:
        content = [{"type": "video"}, {"type": "text", "text": prompt}]
        text: str = self.processor.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        if text.count(self.processor.video_token) != 1:
            raise ModelError(f"the chat template in {self._folder} has no place for one video")
        return text

    def _read_rules(self) -> TokenRules:
        config, generation = self.model.config, self.model.generation_config
        stop = generation.eos_token_id
        if stop is None:
            stop = self.tokenizer.eos_token_id
        placeholders = {config.video_token_id, config.image_token_id}
        return TokenRules(
            vocab_size=min(len(self.tokenizer), config.text_config.vocab_size),
            stop_ids=frozenset(stop if isinstance(stop, (list, tuple)) else [stop]),
            placeholder_ids=tuple(sorted(placeholders)),
            repetition_penalty=float(generation.repetition_penalty or 1.0),
            max_positions=config.text_config.max_position_embeddings,
        )
