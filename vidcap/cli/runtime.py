"""The one place where the command line meets the heavy half of the program."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

from vidcap.cli.console import Console

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
    """A captioner for these settings; cheap, no weights are loaded yet.

    Raises:
        ModelError: where a model is missing or the pair does not match.
        UsageError: where the settings contradict each other.
    """
    from vidcap.captioner import Captioner

    return Captioner(model, video, generation, speculation)


def hush_libraries(console: Console) -> None:
    """Keeps the libraries' own chatter and progress off stderr unless it was asked for.

    They read these variables when they are imported, so this comes first; what the user has set
    stays.
    """
    if not console.verbose:
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
        warnings.simplefilter("ignore")
    if not console.moving:
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
