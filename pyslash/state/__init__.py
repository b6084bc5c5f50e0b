"""The state of a query: blocks, their files, versions, and the manifests that name them. It knows no Spark."""
