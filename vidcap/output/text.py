"""Answers as plain text: the words as they come, under headings where there are several."""

from __future__ import annotations

from typing import TextIO

from vidcap.output.record import Record

#: Control characters other than line feed and tab. A video can show words, a model can repeat
#: them, and a terminal obeys some of them.
_CONTROLS = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)
}


def neutralise(text: str) -> str:
    """The text with control characters written out (``\\x1b``), line feed and tab kept."""
    return text.translate(_CONTROLS)


def one_line(text: str) -> str:
    """The text fit for a heading or a message: one line, no control characters, valid Unicode.

    Bytes of a path that are not UTF-8 are written out (``\\xff``).
    """
    text = text.replace("\n", "\\n").replace("\t", "\\t").translate(_CONTROLS)
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def window_heading(start_s: float, end_s: float) -> str:
    """What stands before the text of a window: ``[00:00:30 - 00:01:00]``.

    Thousandths are written where one of the times has some.
    """
    digits = 0 if all(round(time_s, 3) == round(time_s) for time_s in (start_s, end_s)) else 3
    return f"[{_clock(start_s, digits)} - {_clock(end_s, digits)}]"


def _clock(seconds: float, digits: int) -> str:
    thousandths = round(seconds * 1000)
    clock, rest = divmod(thousandths, 1000)
    text = f"{clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}"
    return f"{text}.{rest:03}" if digits else text


def timed_text(record: Record) -> str:
    """The text of a record, each window on a line with its times where there are windows."""
    if not record.segments:
        return record.text or ""
    lines = [f"{window_heading(item.start_s, item.end_s)} {item.text}" for item in record.segments]
    return "\n".join(lines) + "\n"


class TextWriter:
    """Streams answers as text.

    Headings are written with the first words below them, so an input that fails leaves none.

    Args:
        stream: where the answers go.
        show_paths: head each video with ``==> path <==``.
        show_questions: head each answer with ``--> question <--``.
        live: write words as they are accepted rather than whole answers.
        terminal: neutralise control characters.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        show_paths: bool = False,
        show_questions: bool = False,
        live: bool = True,
        terminal: bool = False,
    ):
        self._stream = stream
        self._show_paths = show_paths
        self._show_questions = show_questions
        self._live = live
        self._terminal = terminal
        self._headings: list[str] = []
        self._path: str | None = None
        self._started = False
        self._last = ""

    def begin(self, path: str, question: str | None) -> None:
        """An answer about ``path`` comes next."""
        self._end_line()
        self._headings = []
        if self._show_paths and path != self._path:
            self._headings.append(f"==> {one_line(path)} <==")
        if self._show_questions and question is not None:
            self._headings.append(f"--> {one_line(question)} <--")
        self._last = ""
        self._path = path

    def piece(self, text: str) -> None:
        """Some more words of the answer."""
        if self._live and text:
            self._write(text)

    def end(self, record: Record) -> None:
        """The answer is complete, or there is none."""
        if not self._last and record.status == "ok":
            self._write(timed_text(record) or "\n")
        self._end_line()

    def close(self) -> None:
        """Nothing more comes. An answer that was cut off still ends its line."""
        self._end_line()

    def _end_line(self) -> None:
        if self._last and self._last != "\n":
            self._write("\n")

    def _write(self, text: str) -> None:
        if self._headings:
            gap = "\n" if self._started else ""
            self._stream.write(gap + "\n".join(self._headings) + "\n")
            self._headings = []
        self._stream.write(neutralise(text) if self._terminal else text)
        self._stream.flush()
        self._started = True
        self._last = text[-1]
