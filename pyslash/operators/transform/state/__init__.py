"""What a processor keeps of a key: its variables, and their values, in tables of homes."""
