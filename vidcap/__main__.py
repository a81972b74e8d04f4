"""``python -m vidcap`` is ``vidcap``."""

from __future__ import annotations

from vidcap.cli import main

if __name__ == "__main__":
    main()
