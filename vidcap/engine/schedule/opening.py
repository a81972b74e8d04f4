"""A video in front of both models, prefilled as its method says."""

from __future__ import annotations

from collections.abc import Callable

from vidcap.engine.drafting import starts_plain
from vidcap.engine.loop import Generation
from vidcap.engine.policy import Policy
from vidcap.engine.prompt import PrefilledPrompt, PrefillJob
from vidcap.engine.request import Request, start
from vidcap.engine.schedule.parallel import parallel_start
from vidcap.engine.schedule.sequential import sequential_prefill
from vidcap.engine.stats import Stats
from vidcap.settings import SpeculationSettings


class OpenedVideo:
    """Answers questions about one video.

    A sequential method prefills the target here and now; a parallel one with the first question,
    which may decide what its draft sees.
    """

    def __init__(
        self,
        target: PrefillJob,
        draft: PrefillJob | None,
        speculation: SpeculationSettings,
        stats: Stats,
        policy: Policy | None = None,
    ):
        """Args:
        target, draft: models and videos; draft None where no model drafts.
        speculation: the method.
        stats: of the first request.
        policy: what ``auto`` has learnt; a draft that loses waits until a round drafts.
        """
        self._jobs: tuple[PrefillJob, PrefillJob | None] | None = (target, draft)
        self._speculation = speculation
        self._policy = policy
        self._prompt: PrefilledPrompt | None = None
        if not self._goes_beside:
            self._prefill(stats)

    @property
    def prompt(self) -> PrefilledPrompt:
        """The prefilled prompt, prefilled now where no question did it."""
        return self._prompt or self._prefill(Stats())

    def start(
        self, request: Request, stats: Stats, should_stop: Callable[[], bool] = lambda: False
    ) -> Generation:
        """Run a question through the models; the generation is ready to iterate over.

        Raises:
            ValueError: when the method drafts with a pair and there is no draft.
        """
        if self._prompt is None and self._jobs is not None:
            target, draft = self._jobs
            if draft is None or not self._goes_beside:
                return start(self._prefill(stats), request, stats, should_stop)
            self._prompt, generation = parallel_start(
                target, draft, self._speculation, request, stats, should_stop
            )
            self._jobs = None
            return generation
        return start(self.prompt, request, stats, should_stop)

    @property
    def _goes_beside(self) -> bool:
        """Whether the draft reads the prompt while the target does."""
        settings, drafts = self._speculation, self._jobs is not None and self._jobs[1] is not None
        beside = settings.draft == "pair" and settings.prefill == "parallel"
        return drafts and beside and not starts_plain(settings, self._policy)

    def _prefill(self, stats: Stats) -> PrefilledPrompt:
        if self._jobs is None:
            raise ValueError("the video was prefilled already")
        late = starts_plain(self._speculation, self._policy)
        self._prompt = sequential_prefill(*self._jobs, self._speculation, stats, late_draft=late)
        # The preprocessed frames are not needed any more.
        self._jobs = None
        return self._prompt
