"""What is asked for: which frames of a video, and how its text is generated."""

from __future__ import annotations

from dataclasses import dataclass

from vidcap.errors import UsageError

DEFAULT_DESCRIBE_PROMPT = "Describe this video in detail."


@dataclass(frozen=True, slots=True)
class VideoSettings:
    """Which frames of a video the model gets to see.

    Attributes:
        fps: sampled frames per second of video.
        max_frames: cap on the number of frames; a longer video is sampled more thinly.
        max_pixels: cap on the pixels of one frame, None for the model's own limit.
        start_s: start of the range in seconds from the first frame.
        end_s: end of the range in seconds, None for the end of the video.
        every_s: length of the windows that are described one by one, None for the range as a
            whole; `max_frames` then holds for each window.
    """

    fps: float = 2.0
    max_frames: int = 64
    max_pixels: int | None = None
    start_s: float = 0.0
    end_s: float | None = None
    every_s: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.fps <= 1000:
            raise UsageError(f"--fps must be above 0 and at most 1000, not {self.fps:g}")
        if self.max_frames < 1:
            raise UsageError(f"--max-frames must be at least 1, not {self.max_frames}")
        if self.max_pixels is not None and self.max_pixels < 1:
            raise UsageError(f"--max-pixels must be at least 1, not {self.max_pixels}")
        if self.start_s < 0:
            raise UsageError(f"--start must not be negative, not {self.start_s:g}")
        if self.end_s is not None and self.end_s <= self.start_s:
            raise UsageError(f"--end ({self.end_s:g} s) must be after --start ({self.start_s:g} s)")
        if self.every_s is not None and not 0.1 <= self.every_s <= 1e6:
            raise UsageError(f"--every must be at least 0.1 s, not {self.every_s:g} s")


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """How text is generated.

    Attributes:
        max_tokens: most tokens to generate, the stop token included.
        repetition_penalty: None for the value in the target's generation_config.
        temperature: 0 for greedy decoding, above it for sampling.
        top_p: sample from the fewest most likely tokens that hold this mass.
        seed: of the samples, None for a new one each time.
    """

    max_tokens: int = 256
    repetition_penalty: float | None = None
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise UsageError(f"--max-tokens must be at least 1, not {self.max_tokens}")
        if self.repetition_penalty is not None and self.repetition_penalty <= 0:
            raise UsageError("the repetition penalty must be above 0")
        if not 0 <= self.temperature <= 100:
            raise UsageError(f"--temperature must be between 0 and 100, not {self.temperature:g}")
        if not 0 < self.top_p <= 1:
            raise UsageError(f"--top-p must be above 0 and at most 1, not {self.top_p:g}")
