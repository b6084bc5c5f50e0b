"""`transformWithState` in Python: the user's own processor, over state that pyslash keeps."""
