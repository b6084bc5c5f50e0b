"""A query starts: whether pyslash runs it, and what it says of that."""
