"""The one place where the command line meets the heavy half of the program."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

from vidcap.cli.console import Console
from vidcap.cli.fetching import settle_pair, stay_offline

if TYPE_CHECKING:
    from vidcap.captioner import Captioner
    from vidcap.settings import (
        GenerationSettings,
        ModelSettings,
        SpeculationSettings,
        VideoSettings,
    )


def make_captioner(
    model: ModelSettings,
    video: VideoSettings,
    generation: GenerationSettings,
    speculation: SpeculationSettings,
) -> Captioner:
    """A captioner for these settings; cheap but for models that have to be fetched first.

    Raises:
        ModelError: where a model is missing or the pair does not match.
        UsageError: where the settings contradict each other.
    """
    if model.offline:
        stay_offline()
    model = settle_pair(model, needs_draft=speculation.needs_draft)
    from vidcap.captioner import Captioner

    return Captioner(model, video, generation, speculation)


def hush_libraries(console: Console) -> None:
    """Keeps the libraries' own chatter and progress off stderr unless it was asked for.

    They read these variables when they are imported, so this comes first; what the user has set
    stays. FFmpeg is silent by itself and has to be told to speak.
    """
    if console.verbose:
        from vidcap.video import show_decoder_log

        show_decoder_log()
    else:
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
        warnings.simplefilter("ignore")
    if not console.moving:
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
