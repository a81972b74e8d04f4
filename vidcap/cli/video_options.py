"""Options that say which frames of a video a model sees."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from vidcap.cli.binding import option
from vidcap.cli.values import parse_duration, parse_time
from vidcap.settings import VideoSettings

_VIDEO = VideoSettings()

_video = partial(option, panel="Video")


@dataclass(frozen=True, slots=True)
class VideoOptions:
    """Which frames."""

    fps: Annotated[float, _video("--fps", metavar="N", help="Frames per second of video.")] = (
        _VIDEO.fps
    )
    max_frames: Annotated[
        int,
        _video(
            "--max-frames", metavar="N", help="Most frames; a longer video is sampled more thinly."
        ),
    ] = _VIDEO.max_frames
    max_pixels: Annotated[
        int | None,
        _video(
            "--max-pixels",
            metavar="N",
            help="Most pixels of one frame, if below the model's own limit.",
        ),
    ] = _VIDEO.max_pixels
    start: Annotated[
        str | None,
        _video("--start", metavar="TIME", help="Start there: seconds or HH:MM:SS[.mmm]."),
    ] = None
    end: Annotated[
        str | None,
        _video("--end", metavar="TIME", help="Stop there: seconds or HH:MM:SS[.mmm]."),
    ] = None

    def settings(self) -> VideoSettings:
        """The options as settings.

        Raises:
            UsageError: where a value makes no sense.
        """
        start_s = _VIDEO.start_s if self.start is None else parse_time(self.start, "--start")
        end_s = _VIDEO.end_s if self.end is None else parse_time(self.end, "--end")
        return VideoSettings(self.fps, self.max_frames, self.max_pixels, start_s, end_s)


@dataclass(frozen=True, slots=True)
class WindowOptions:
    """Whether a video is described in one piece."""

    every: Annotated[
        str | None,
        _video(
            "--every",
            metavar="DURATION",
            help="One caption for each window of that length, with its times: 30s, 2m, 1:30; "
            "--max-frames then holds for each window.",
        ),
    ] = None

    def settings(self, video: VideoSettings) -> VideoSettings:
        """The settings with the length of the windows.

        Raises:
            UsageError: where it makes no sense.
        """
        if self.every is None:
            return video
        return replace(video, every_s=parse_duration(self.every, "--every"))
