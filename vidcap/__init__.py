"""vidcap: fast video captioning with speculative decoding.

Importing this package is cheap; torch and transformers load when a pair does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from vidcap.captioner import Captioner, load_pair

__all__ = ["Captioner", "__version__", "load_pair"]


def __getattr__(name: str) -> Any:
    if name in ("Captioner", "load_pair"):
        from vidcap import captioner

        return getattr(captioner, name)
    raise AttributeError(f"module 'vidcap' has no attribute '{name}'")
