"""Rows behind the watermark: which they were, and where they come from."""
