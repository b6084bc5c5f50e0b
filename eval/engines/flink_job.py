"""Runs in Flink's own environment: `python -m eval.engines.flink_job ANSWERS_FD SETTINGS`; orders come on stdin.

An order is a line of JSON: `files` in the order of event time, the fields of `eval.engines.flink_sql.FlinkJob`, and
`connector` and `options` of the sink. An answer is a line too: `seconds` and `part`, or `error`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import pandas as pd
from py4j.protocol import Py4JJavaError
from pyflink.common import Configuration, JobClient, TypeInformation, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource
from pyflink.datastream.connectors.hybrid_source import HybridSource
from pyflink.datastream.formats.parquet import ParquetColumnarRowInputFormat
from pyflink.table import DataTypes, Schema, StreamTableEnvironment, TableDescriptor
from pyflink.table.udf import udf

from eval.workloads.newton import Newton

_TYPES = {
    "BIGINT": DataTypes.BIGINT(),
    "INT": DataTypes.INT(),
    "DOUBLE": DataTypes.DOUBLE(),
    "BOOLEAN": DataTypes.BOOLEAN(),
    "STRING": DataTypes.STRING(),
    "BYTES": DataTypes.BYTES(),
    "TIMESTAMP(3)": DataTypes.TIMESTAMP(3),
    "TIMESTAMP(6)": DataTypes.TIMESTAMP(6),
}
ROWS_A_BATCH = 2048
POLL_SECONDS = 0.002


def main() -> None:
    """Answer until there are no more orders."""
    settings: dict[str, str] = json.loads(sys.argv[2])
    with os.fdopen(int(sys.argv[1]), "w") as answers:
        for line in sys.stdin:
            try:
                answer = run(json.loads(line), settings)
            except Exception as error:
                print(error, file=sys.stderr, flush=True)
                answer = {"error": _reason(error)}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


def run(order: dict[str, Any], settings: dict[str, str]) -> dict[str, Any]:
    """Run a job: its `seconds`, and the `part` of this process's life that they were, in seconds since 1970.

    They are from when the job runs to its end: the start of the cluster that Flink makes for it is not in them.
    """
    configuration = Configuration()
    for key, value in {**settings, "python.executable": sys.executable}.items():
        configuration.set_string(key, value)
    # One environment an order: its tables are gone with it.
    execution = StreamExecutionEnvironment.get_execution_environment(configuration)
    environment = StreamTableEnvironment.create(execution)
    if order["iterations"]:
        environment.create_temporary_function("compute", _function(Newton(order["iterations"])))
    environment.create_temporary_view("events", _events(order, execution, environment))
    for statement in order["views"]:
        environment.execute_sql(statement)
    sink = TableDescriptor.for_connector(order["connector"])
    for key, value in order["options"].items():
        sink = sink.option(key, value)
    result = environment.sql_query(order["select"]).execute_insert(sink.build())
    _await_running(result.get_job_client())
    began, clock = time.time(), time.perf_counter()
    result.wait()
    seconds = time.perf_counter() - clock
    return {"seconds": seconds, "part": [began, began + seconds]}


def _await_running(job: JobClient) -> None:
    """Until the job has been scheduled, or has ended already."""
    try:
        # Asked of the Java client: PyFlink's own has no name for a job that is being initialised.
        while job._j_job_client.getJobStatus().get().toString() in ("INITIALIZING", "CREATED"):
            time.sleep(POLL_SECONDS)
    except Py4JJavaError:
        return  # the cluster is gone with its job; whoever waits for the result hears why


class _TypeOf(TypeInformation):
    """Of a source's rows: a chain of sources does not tell its type, as each of its sources does."""

    def __init__(self, source: FileSource) -> None:
        super().__init__()
        self._j_typeinfo = source.get_java_function().getProducedType()

    def get_java_type_info(self) -> Any:
        return self._j_typeinfo


def _events(order: dict[str, Any], execution: StreamExecutionEnvironment, environment: StreamTableEnvironment) -> Any:
    """The files as one stream, in the order of their names.

    A source of all files would read them in any order (its splits come out of a hash set), and rows of files that come
    too late would be dropped. So it is a chain of sources, each of as many files as are read at the same time.
    """
    columns = order["columns"]
    row = DataTypes.ROW([DataTypes.FIELD(name, _TYPES[kind]) for name, kind in columns.items()])
    files, readers = order["files"], execution.get_parallelism()
    steps = [
        FileSource.for_bulk_file_format(
            ParquetColumnarRowInputFormat(row, Configuration(), ROWS_A_BATCH, True, True), *files[at : at + readers]
        ).build()
        for at in range(0, len(files), readers)
    ]
    chain = HybridSource.builder(steps[0])
    for step in steps[1:]:
        chain = chain.add_source(step)
    stream = execution.from_source(chain.build(), WatermarkStrategy.no_watermarks(), "files", _TypeOf(steps[0]))
    schema = Schema.new_builder()
    for name, kind in columns.items():
        schema = schema.column(name, _TYPES[kind])
    for name, expression in order["computed"].items():
        schema = schema.column_by_expression(name, expression)
    if order["watermark"]:
        schema = schema.watermark(order["time"], order["watermark"])
    return environment.from_data_stream(stream, schema.build())


def _function(newton: Newton) -> Any:
    def compute(values: pd.Series) -> pd.Series:
        return pd.Series(newton(values.to_numpy()))

    return udf(compute, result_type=DataTypes.DOUBLE(), func_type="pandas")


def _reason(error: Exception) -> str:
    """The innermost cause that Java names, else the first line."""
    lines = str(error).splitlines() or [type(error).__name__]
    causes = [line for line in lines if line.startswith(("Caused by: ", ": "))]
    return (causes or lines[:1])[-1].removeprefix("Caused by").removeprefix(": ")


if __name__ == "__main__":
    main()
