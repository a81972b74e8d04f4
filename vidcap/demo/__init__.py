"""Rendered scenes with true captions, and the demo pair that was trained on them."""
