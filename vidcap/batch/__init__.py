"""Many videos: finding them, answering about each, keeping the answers, going on where it ended."""
