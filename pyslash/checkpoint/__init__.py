"""Blocks on disk: what survives every process. `block_file` is the format, `directory` where the files lie."""
