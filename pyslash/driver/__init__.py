"""A query in the driver: its hook, its epochs, and how it recovers."""
