"""Rows that come too late, which Spark drops in silence, kept in a folder of the user's: `spark.slash.late`."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pyslash.conf import PREFIX, Conf
from pyslash.errors import LateRowsError
from pyslash.spark.execution import SparkBatch
from pyslash.units import Epoch

_FOLDERS = ("query", "operator", "input", "epoch")


class LateRows:
    """Where the late rows of an operator go.

    They are written once the epoch's manifest is there and before the sink has its rows: an epoch that is repeated
    writes the same rows in the place of those that there may be. An epoch that Spark has committed is not repeated.
    """

    def __init__(self, conf: Conf) -> None:
        self._folder = conf.late_path.rstrip("/")
        self._format = conf.late_format

    @property
    def are_kept(self) -> bool:
        """Whether anybody wants them."""
        return bool(self._folder)

    def keep(self, execution: SparkBatch, epoch: Epoch, operator: int) -> None:
        """Write those of an epoch.

        Args:
            execution: the micro-batch's; it has rows that are late.
            epoch: the batch id.
            operator: its place among the query's.

        Raises:
            LateRowsError: they cannot be written.
        """
        query = execution.of(0).query_id
        for number, late in enumerate(execution.late_rows()):
            rows = _beside_folders(late)
            folder = f"{self._folder}/query={query}/operator={operator}/input={number}"
            try:
                if self._format == "delta":
                    self._append(rows.withColumn("epoch", F.lit(epoch)), epoch, folder)
                else:
                    rows.write.format(self._format).mode("overwrite").save(f"{folder}/epoch={epoch}")
            except (PySparkException, Py4JJavaError) as error:
                if execution.is_stopped_by(error):
                    raise
                raise LateRowsError(
                    f"the late rows of epoch {epoch} cannot be written to {folder}: {error}. Nothing is lost: once the "
                    f"cause is gone, start the query again; without {PREFIX}late its late rows are dropped"
                ) from error

    def _append(self, rows: DataFrame, epoch: Epoch, folder: str) -> None:
        """To a table that takes each version of a writer once."""
        writer = rows.write.format(self._format).mode("append").option("mergeSchema", "true")
        writer.option("txnAppId", folder).option("txnVersion", str(epoch)).save(folder)


def _beside_folders(rows: DataFrame) -> DataFrame:
    """With other names for columns that are called as folders are, which Spark would read in their place."""
    names = [f"{name}_" if name.lower() in _FOLDERS else name for name in rows.columns]
    return rows.toDF(*names)
