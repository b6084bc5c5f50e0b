"""Runs in Flink's own environment: `python -m eval.engines.flink_job ANSWERS_FD SETTINGS`; orders come on stdin.

An order is a line of JSON: `tables` (statements), `select`, `connector` and `options` of its sink, `iterations` of the
function `compute`, if the query has one. An answer is a line too: `seconds`, or `error`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import pandas as pd
from pyflink.common import Configuration
from pyflink.table import DataTypes, EnvironmentSettings, TableDescriptor, TableEnvironment
from pyflink.table.udf import udf

from eval.workloads.newton import Newton


def main() -> None:
    """Answer until there are no more orders."""
    settings: dict[str, str] = json.loads(sys.argv[2])
    with os.fdopen(int(sys.argv[1]), "w") as answers:
        for line in sys.stdin:
            try:
                answer = {"seconds": run(json.loads(line), settings)}
            except Exception as error:
                print(error, file=sys.stderr, flush=True)
                answer = {"error": _reason(error)}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


def run(order: dict[str, Any], settings: dict[str, str]) -> float:
    """Seconds from the first statement to the job's end."""
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    configuration.set_string("python.executable", sys.executable)
    began = time.perf_counter()
    # One environment an order: its tables are gone with it.
    environment = TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    )
    if order["iterations"]:
        environment.create_temporary_function("compute", _function(Newton(order["iterations"])))
    for statement in order["tables"]:
        environment.execute_sql(statement)
    sink = TableDescriptor.for_connector(order["connector"])
    for key, value in order["options"].items():
        sink = sink.option(key, value)
    environment.sql_query(order["select"]).execute_insert(sink.build()).wait()
    return time.perf_counter() - began


def _function(newton: Newton) -> Any:
    def compute(values: pd.Series) -> pd.Series:
        return pd.Series(newton(values.to_numpy()))

    return udf(compute, result_type=DataTypes.DOUBLE(), func_type="pandas")


def _reason(error: Exception) -> str:
    """The innermost cause that Java names, else the first line."""
    causes = [line for line in str(error).splitlines() if line.startswith(("Caused by:", "org.apache.flink"))]
    return (causes or str(error).splitlines() or [type(error).__name__])[-1].removeprefix("Caused by: ")


if __name__ == "__main__":
    main()
