"""Aggregation by session windows."""
