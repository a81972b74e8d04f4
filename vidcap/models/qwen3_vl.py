"""Qwen3-VL through the released classes of transformers.

Two things set its prompt apart. Every step of the temporal grid stands behind its time in words and
between marks of its own; the processor writes both. And the chat template puts marks around the
whole video: the authors' own processor (transformers 4.57) replaced them together with the
placeholder, releases 5 leave them in. vidcap takes them out before the processor sees the prompt,
which gives the authors' form with every release.

Features of early vision layers join the states behind the first decoder layers (deepstack). They
matter in the prefill of the video alone; its keys and values carry them from then on.
"""

from __future__ import annotations

from typing import ClassVar

from vidcap.errors import ModelError
from vidcap.models.qwen2_vl import Qwen2VL
from vidcap.models.trunk import TowerNames


class Qwen3VL(Qwen2VL):
    """Satisfies :class:`vidcap.models.protocol.VideoModel`."""

    tower_names: ClassVar[TowerNames | None] = TowerNames(("merger", "deepstack_merger_list"))

    def _render(self, prompt: str) -> str:
        text, video = super()._render(prompt), self.processor.video_token
        begin, end = self.processor.vision_start_token, self.processor.vision_end_token
        if begin + video + end not in text:
            raise ModelError(
                f"the chat template in {self.checkpoint.folder} has no marks around the video"
            )
        return text.replace(begin + video + end, video)

    def _suffix(self, prompt: str) -> str:
        # The mark that ends the last step stands behind its last visual token.
        end: str = self.processor.vision_end_token
        return end + super()._suffix(prompt)
