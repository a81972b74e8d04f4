"""One adapter per model family behind one protocol, and where weights come from."""
