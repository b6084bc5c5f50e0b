"""All three examples in one application, which is meant to be killed: python all_examples.py SPEC.json [ARGUMENT...]

The spec has the arguments of each example, by the name of its script; further arguments are for all of them. It ends
when all have ended. One that fails is started again, as whoever looks after a stream would.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

MOST_FAILURES = 100


def main(spec: Path, more: list[str]) -> None:
    """Run them."""
    spark = SparkSession.builder.appName("all_examples").getOrCreate()
    scripts = {importlib.import_module(f"examples.{name}"): args for name, args in json.loads(spec.read_text()).items()}
    running = {script: script.start(spark, script.parse([*args, *more])) for script, args in scripts.items()}
    failures = 0
    while running:
        for script, query in list(running.items()):
            try:
                if query.awaitTermination(0.2):
                    del running[script]
            except StreamingQueryException as error:
                failures += 1
                if failures > MOST_FAILURES:
                    raise
                print(f"started again: {error}", file=sys.stderr, flush=True)
                running[script] = script.start(spark, script.parse([*scripts[script], *more]))
    spark.stop()


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    main(Path(sys.argv[1]), sys.argv[2:])
