"""State moves between plain Spark and pyslash."""
