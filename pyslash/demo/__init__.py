"""`pyslash demo`: the same unmodified PySpark job on plain Spark and on pyslash, timed and compared row by row."""
