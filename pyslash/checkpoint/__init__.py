"""Blocks on disk, which survive every process. `block_file` is the format, `directory` the folder."""
