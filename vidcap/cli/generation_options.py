"""Options that say what is asked for, and how the text is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from vidcap.cli.binding import option
from vidcap.cli.values import read_text
from vidcap.settings import DEFAULT_DESCRIBE_PROMPT, GenerationSettings

_GENERATION = GenerationSettings()

_generation = partial(option, panel="Generation")


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """The words for the model."""

    prompt: Annotated[
        str | None,
        _generation(
            "--prompt",
            metavar="TEXT|@FILE",
            help="describe: what to ask for; ask: an instruction put before each question.",
            show_default=f"describe: '{DEFAULT_DESCRIBE_PROMPT}'",
        ),
    ] = None

    def text(self) -> str | None:
        """The prompt, read from its file where one is named.

        Raises:
            UsageError: where that fails.
        """
        return None if self.prompt is None else read_text(self.prompt, "--prompt")


@dataclass(frozen=True, slots=True)
class LengthOptions:
    """How much text."""

    max_tokens: Annotated[
        int,
        _generation("--max-tokens", metavar="N", help="Most new tokens."),
    ] = _GENERATION.max_tokens


@dataclass(frozen=True, slots=True)
class SamplingOptions(LengthOptions):
    """How much text, and how its tokens are chosen."""

    temperature: Annotated[
        float,
        _generation(
            "--temperature", metavar="T", help="0 takes the likeliest token, above it samples."
        ),
    ] = _GENERATION.temperature
    top_p: Annotated[
        float,
        _generation(
            "--top-p", metavar="P", help="Sample from the fewest likely tokens that hold this mass."
        ),
    ] = _GENERATION.top_p

    def with_seed(self, seed: int | None) -> GenerationSettings:
        """The options as settings, with the seed of the samples.

        Raises:
            UsageError: where a value makes no sense.
        """
        return GenerationSettings(
            max_tokens=self.max_tokens, temperature=self.temperature, top_p=self.top_p, seed=seed
        )


@dataclass(frozen=True, slots=True)
class GenerationOptions(SamplingOptions):
    """Those options, and the seed of the samples."""

    seed: Annotated[
        int | None,
        _generation("--seed", min=0, metavar="S", help="Seed of the samples."),
    ] = _GENERATION.seed

    def settings(self) -> GenerationSettings:
        """The options as settings.

        Raises:
            UsageError: where a value makes no sense.
        """
        return self.with_seed(self.seed)
