"""Blocks are merged, and what they give becomes rows."""
