"""Files of a checkpoint, and what is in those of blocks."""
