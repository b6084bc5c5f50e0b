"""An executable specification of the epoch protocol.

The real driver side (`EpochRunner`, `Coordinator`, `ManifestLog`, `DurableState`, `Merging`) and real agents
(`AgentState` over a real arena) run against a Spark, a network and file systems that are all in memory, and that fail,
delay, duplicate and reorder where a schedule says so. After every epoch the rows in the sink are compared with those
of a dictionary. A schedule is a number: the same number is the same run, to the last step.

    python -m tests.model 1234        what happens under schedule 1234, step by step
"""
