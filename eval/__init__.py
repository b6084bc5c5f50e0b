"""Measurements of pyslash against Spark's own stateful aggregation: workloads x engines -> JSON lines and a table.

    python -m eval run --workload aggregate --slide-s 1 --engines slash-rows,spark-rocksdb
    python -m eval suite windows latency --rows 2000000

How a figure is made, so that it can be judged:

- every engine runs in its own process and JVM; all read the same Parquet files with the same number of cores and with
  `spark.sql.shuffle.partitions` = number of cores (the default of 200 makes Spark slower on one machine);
- what is judged is the steady part of a long stream into Spark's `noop` sink: state full, JVM warm (`eval/steady.py`).
  Its rows are compared in a run of the stream's first micro-batches before;
- sweeps are short streams, measured whole. Each process has run a sample of the workload before, and a micro-batch of
  full size; their rows are those of the measured run, whose sink (`foreachBatch`, of every Spark engine) takes a digest
  (`eval/digest.py`), one aggregation a micro-batch, within the time that is measured. Engines take turns, so that a
  slow minute of the machine hits all of them; what takes more than 15 s runs once;
- digests are held against Spark's batch query over the same rows, or, where rows are late, against plain Spark's
  stream, micro-batch by micro-batch. Where they differ, another run tells which rows;
- engines that keep none of their runs' rows (Flink, DuckDB, Polars) are compared in a run of their own;
- a sweep's time goes from `start()` to the end of `awaitTermination()` of an availableNow stream; Flink's from when its
  job runs, as it makes a cluster for each job first;
- micro-batches without input, in which Spark emits what the last watermark closed, are in every run's time, and in
  `batch_ms`; `input_batch_ms` has those with input alone;
- a slow engine may be measured on the first micro-batches only: its record says on how many (`first_batches`, `rows`);
- processor time and memory are of all processes of the engine, agents and Python workers included; memory (anonymous
  pages, and shared memory once) is looked at twice a second;
- DuckDB and Polars run the same query over all files at once: bounds, with the windows still open included.
"""
