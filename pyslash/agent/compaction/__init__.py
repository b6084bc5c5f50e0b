"""Many small blocks become few, in the background."""
