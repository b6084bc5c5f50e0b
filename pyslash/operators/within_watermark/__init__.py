"""Deduplication within the watermark."""
