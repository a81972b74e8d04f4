"""What one arm gave on one clip, and the file that keeps it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any

from vidcap.errors import UsageError, VidcapError
from vidcap.output.jsonout import to_json

#: How every line of a file of runs begins.
_BEGIN = b'{"key": "'


@dataclass(frozen=True, slots=True)
class ArmRun:
    """One arm on one clip: raw figures, nothing derived.

    Attributes:
        key: equal for runs that would give the same, see ``vidcap.bench.runner``.
        clip, arm: their names.
        prompt: the words for the model.
        text: the answer.
        finish_reason: ``stop`` or ``length``.
        tokens: the generated ones, a stop token included.
        visual_tokens, draft_visual_tokens: what each model saw; the draft's None without a draft.
        first_tokens: how many of the tokens came with the prefill.
        rounds: target calls behind the prefill.
        drafted, accepted: drafted tokens of these rounds, and those that became text.
        draft_calls: forward passes of the draft while decoding.
        total_s: from the start of decoding the video to the end of the answer.
        ttft_s: from the start of decoding the video to the first token.
        prefill_s: vision towers and prefills of all models.
        decode_s: from the first token to the last.
        draft_s, verify_s, other_s: parts of decode_s, None where they cannot be told apart.
        peak_memory_bytes: most memory during the run, None where it cannot be told.
        device, dtype: where and in what format it ran.
        margins: of plain decoding, per token by how much the target preferred it to the next best.
        rejections: first mismatches of the draft, one at most per round.
        rejections_on_facts: how many of them concern facts, None where no facts are known.
        facts: (right, wrong, missing) by kind, None where no truth is known.
        answer_right: whether a question was answered right, None where there is none to check.
        question_kind: what kind of question it was.
    """

    key: str
    clip: str
    arm: str
    prompt: str
    text: str
    finish_reason: str
    tokens: tuple[int, ...]
    visual_tokens: int
    draft_visual_tokens: int | None
    rounds: int
    drafted: int
    accepted: int
    draft_calls: int
    total_s: float
    ttft_s: float
    prefill_s: float
    decode_s: float
    draft_s: float | None = None
    verify_s: float | None = None
    other_s: float | None = None
    peak_memory_bytes: int | None = None
    device: str | None = None
    dtype: str | None = None
    margins: tuple[float, ...] | None = None
    rejections: int = 0
    rejections_on_facts: int | None = None
    facts: dict[str, tuple[int, int, int]] | None = None
    answer_right: bool | None = None
    question_kind: str | None = None
    first_tokens: int = 1

    @staticmethod
    def from_dict(values: Any) -> ArmRun:
        """The run that ``dataclasses.asdict`` turned into JSON types.

        Raises:
            ValueError: the values are something else.
        """
        names = {item.name for item in fields(ArmRun)}
        if not isinstance(values, dict) or values.keys() != names:
            raise ValueError("other fields than those of a run")
        facts, margins = values["facts"], values["margins"]
        if facts is not None:
            facts = {kind: tuple(counts) for kind, counts in facts.items()}
        return ArmRun(
            **values
            | {
                "tokens": tuple(values["tokens"]),
                "margins": None if margins is None else tuple(margins),
                "facts": facts,
            }
        )


class RunStore:
    """The runs so far by key, and the JSONL file they are appended to, where one is wanted."""

    def __init__(self, path: Path | None = None):
        """Reads what an earlier run left; a last line that was cut short is dropped.

        Raises:
            UsageError: the file holds something else, or cannot be opened for writing.
        """
        self._path = path
        self._runs: dict[str, ArmRun] = {}
        self._file = None
        if path is not None:
            try:
                self._file = path.open("a+b")
                self._read()
            except OSError as error:
                raise UsageError(f"cannot write {path}: {error.strerror or error}") from error

    def __enter__(self) -> RunStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()

    def get(self, key: str) -> ArmRun | None:
        """The run with this key, None where there is none yet."""
        return self._runs.get(key)

    def add(self, run: ArmRun) -> None:
        """Keep a run; on disk before this returns.

        Raises:
            VidcapError: it cannot be written.
        """
        self._runs[run.key] = run
        if self._file is None:
            return
        try:
            self._file.write(to_json(asdict(run)).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            words = f"cannot write {self._path}: {error.strerror or error}"
            raise VidcapError(words, exit_code=3) from error

    def _read(self) -> None:
        if self._file is None:
            return
        self._file.seek(0)
        complete = 0
        for number, line in enumerate(self._file, 1):
            # Only what this class itself has begun to write may be cut off.
            if not line.endswith(b"\n") and line[: len(_BEGIN)] == _BEGIN[: len(line)]:
                break
            complete += len(line)
            try:
                run = ArmRun.from_dict(json.loads(line))
            except (ValueError, TypeError, AttributeError) as error:
                raise UsageError(
                    f"{self._path}, line {number}: no raw result of this version of vidcap bench",
                    hint="name another --out-file",
                ) from error
            self._runs[run.key] = run
        self._file.truncate(complete)
        self._file.seek(0, os.SEEK_END)
