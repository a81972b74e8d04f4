"""What becomes of a run that the memory does not hold."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from vidcap.errors import MemoryShortError


def free_memory() -> None:
    """Let go of what a run that ended for want of memory has left behind."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


@contextmanager
def explained_memory() -> Iterator[None]:
    """Turns an out-of-memory failure inside the block into one line.

    Raises:
        MemoryShortError: in place of it.
    """
    import torch

    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise _too_large() from error
    except RuntimeError as error:
        # The CPU allocator raises a plain RuntimeError.
        if "not enough memory" in str(error) or "alloc" in str(error).lower():
            raise _too_large() from error
        raise


def _too_large() -> MemoryShortError:
    return MemoryShortError(
        "out of memory",
        hint="use fewer frames (--max-frames) or --max-pixels; `vidcap plan` says what it needs",
    )
