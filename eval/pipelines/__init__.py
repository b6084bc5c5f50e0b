"""The examples with Kafka and Delta on real parts: seeded orders in, what arrives at the sink, and whether it is right.

`orders` and `topic` produce, `replay` knows what has to arrive, `delta_table` and `topic` read what has arrived without
Spark, `verdict` compares; `job` starts an example, `live` shows it, and `__main__` does all of it.
"""
