"""The Iceberg sink, on the PySpark that has a runtime of it."""
