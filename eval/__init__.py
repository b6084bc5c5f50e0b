"""Measurements of pyslash against Spark's own stateful aggregation: workloads x engines -> JSON lines and a table.

    python -m eval run --workload aggregate --slide-s 1 --engines slash-rows,spark-rocksdb
    python -m eval suite windows latency --rows 2000000

How a figure is made, so that it can be judged:

- every engine runs in its own process and JVM; all read the same Parquet files with the same number of cores and with
  `spark.sql.shuffle.partitions` = number of cores (the default of 200 makes Spark slower on one machine);
- before anything is measured each process has run samples of the same workload; the output of one is compared with what
  a Spark batch query gives over the same rows;
- before each run of several micro-batches the engine has just run one of full size;
- engines take turns, so that a slow minute of the machine hits all of them; what takes more than 40 s runs once;
- a run's time goes from `start()` to the end of `awaitTermination()` of an availableNow stream with a noop sink;
- a slow engine may be measured on the first micro-batches only: its record says on how many (`first_batches`, `rows`);
- processor time and memory are of all processes of the engine, agents and Python workers included; memory (anonymous
  pages, and shared memory once) is looked at twice a second;
- DuckDB and Polars run the same query over all files at once: bounds, with the windows still open included.
"""
