"""From a streaming DataFrame's physical plan to the operator that pyslash executes, or to the reason why not."""
