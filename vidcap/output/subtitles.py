"""Captions with their times as SubRip (SRT) and WebVTT."""

from __future__ import annotations

import html
import re
from typing import TextIO

from vidcap.output.record import Record
from vidcap.output.text import neutralise

#: Start and end in seconds, and the words.
Cue = tuple[float, float, str]

#: A cue without length is not shown by any player.
_SHORTEST_S = 0.001


def cues(record: Record) -> list[Cue]:
    """The windows of a record, or one over the whole stretch that it is about."""
    if record.segments:
        return [(part.start_s, part.end_s, part.text) for part in record.segments]
    video = record.video
    if record.status != "ok" or video is None:
        return []
    start_s = video.frame_times_s[0] if video.frame_times_s else 0.0
    end_s = video.decoded_s if video.decoded_s is not None else video.duration_s
    return [(start_s, max(start_s, end_s or 0.0), record.text or "")]


class SubtitleWriter:
    """Prints the captions of one video as subtitles; windows without words are left out.

    Args:
        stream: where they go.
        vtt: WebVTT rather than SubRip.
        terminal: neutralise control characters.
    """

    def __init__(self, stream: TextIO, *, vtt: bool, terminal: bool = False):
        self._stream = stream
        self._vtt = vtt
        self._terminal = terminal
        self._count = 0

    def begin(self, path: str, question: str | None) -> None:
        """Nothing is printed before an answer is complete."""

    def piece(self, text: str) -> None:
        """Words in the making are not printed."""

    def end(self, record: Record) -> None:
        """Prints the captions, none for a video that failed."""
        if record.status != "ok":
            return
        if self._vtt:
            self._stream.write("WEBVTT\n\n")
        for start_s, end_s, text in cues(record):
            words = self._words(text)
            if not words:
                continue
            self._count += 1
            end_s = max(end_s, start_s + _SHORTEST_S)
            number = "" if self._vtt else f"{self._count}\n"
            self._stream.write(
                f"{number}{self._time(start_s)} --> {self._time(end_s)}\n{words}\n\n"
            )
        self._stream.flush()

    def close(self) -> None:
        """Every cue is complete already."""

    def _words(self, text: str) -> str:
        """The text without what ends a cue or begins another: empty lines, arrows, for VTT tags."""
        lines = [line.strip() for line in re.split(r"[\r\n\v\f\x85\u2028\u2029]+", text)]
        words = "\n".join(filter(None, lines))
        words = html.escape(words, quote=False) if self._vtt else words.replace("-->", "->")
        return neutralise(words) if self._terminal else words

    def _time(self, seconds: float) -> str:
        milliseconds = round(seconds * 1000)
        clock, thousandths = divmod(milliseconds, 1000)
        mark = "." if self._vtt else ","
        return f"{clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}{mark}{thousandths:03}"
