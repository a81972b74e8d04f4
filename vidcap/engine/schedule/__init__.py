"""Who runs when."""

from vidcap.engine.schedule.sequential import PrefilledPrompt, PrefillJob, sequential_prefill

__all__ = ["PrefillJob", "PrefilledPrompt", "sequential_prefill"]
