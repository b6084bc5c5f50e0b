"""Agents of executors, as the driver sees them."""
