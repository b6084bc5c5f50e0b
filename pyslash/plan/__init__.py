"""From a streaming DataFrame's physical plan to the stateful operator that pyslash executes, or to the reason why not."""
