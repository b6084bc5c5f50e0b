"""A query that has changed: what tells its state from that of another, and what it continues with."""
