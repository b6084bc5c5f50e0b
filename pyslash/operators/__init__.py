"""What an epoch does for one stateful operator beside update and merge."""
