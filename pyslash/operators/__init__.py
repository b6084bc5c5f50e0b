"""The stateful operators that pyslash executes: each is a file or a folder, and a line in `table`."""
