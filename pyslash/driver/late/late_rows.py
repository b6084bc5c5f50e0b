"""Rows that come too late, which Spark drops in silence, kept in a folder of the user's: `spark.slash.late`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyslash.conf import PREFIX, Conf
from pyslash.errors import LateRowsError
from pyslash.spark.execution import SparkBatch, distinct
from pyslash.state.files.hadoop_files import HadoopFiles
from pyslash.units import Epoch

_FOLDERS = ("query", "operator", "input", "epoch")
_COMMIT = r"([0-9]{20})\.json"


class LateRows:
    """Where the late rows of an operator go.

    They are written once the epoch's manifest is there and before the sink has its rows: an epoch that is repeated
    writes its rows in the place of those that there may be. Where a checkpoint was put back to a copy, Spark repeats
    epochs that it has committed, with other rows: what there is of them goes when the query starts.
    """

    def __init__(self, conf: Conf) -> None:
        self._folder = conf.late_path.rstrip("/")
        self._format = conf.late_format
        self._is_tidy = False

    @property
    def are_kept(self) -> bool:
        """Whether anybody wants them."""
        return bool(self._folder)

    def tidy(self, execution: SparkBatch, epoch: Epoch, operator: int) -> None:
        """Delete, in the first epoch of a query that was started, what there is of it and of later ones.

        Raises:
            LateRowsError: it cannot be deleted.
        """
        if self._is_tidy:
            return
        folder = self._of(execution, operator)
        with _reaching(execution, f"the late rows from epoch {epoch} on cannot be deleted from {folder}"):
            for number in _numbers("input=([0-9]+)", HadoopFiles(execution.session, folder)):
                self._delete(execution.session, f"{folder}/input={number}", epoch)
        self._is_tidy = True

    def keep(self, execution: SparkBatch, epoch: Epoch, operator: int) -> None:
        """Write those of an epoch.

        Args:
            execution: the micro-batch's; it has rows that are late.
            epoch: the batch id.
            operator: its place among the query's.

        Raises:
            LateRowsError: they cannot be written.
        """
        for number, late in enumerate(execution.late_rows()):
            rows, folder = _beside_folders(late), f"{self._of(execution, operator)}/input={number}"
            with _reaching(execution, f"the late rows of epoch {epoch} cannot be written to {folder}"):
                if self._format == "delta":
                    self._append(rows.withColumn("epoch", F.lit(epoch)), epoch, folder, execution.run_id)
                else:
                    rows.write.format(self._format).mode("overwrite").save(f"{folder}/epoch={epoch}")

    def _append(self, rows: DataFrame, epoch: Epoch, folder: str, run_id: str) -> None:
        """To a table that takes each version of a writer once. Each start is one: its epochs may be others."""
        writer = rows.write.format(self._format).mode("append").option("mergeSchema", "true")
        writer.option("txnAppId", f"{folder} {run_id}").option("txnVersion", str(epoch)).save(folder)

    def _of(self, execution: SparkBatch, operator: int) -> str:
        return f"{self._folder}/query={execution.of(0).query_id}/operator={operator}"

    def _delete(self, session: SparkSession, folder: str, epoch: Epoch) -> None:
        """What an input has of the epoch and of later ones."""
        files = HadoopFiles(session, folder)
        if self._format == "delta":
            if _numbers(_COMMIT, files, "_delta_log"):  # else nothing was ever written to the table
                rows, where = session.read.format(self._format).load(folder), f"epoch >= {epoch}"
                if not rows.where(where).isEmpty():
                    writer = rows.limit(0).write.format(self._format).mode("overwrite")
                    writer.option("replaceWhere", where).save(folder)
            return
        for later in _numbers("epoch=([0-9]+)", files):
            if later >= epoch:
                files.delete(f"epoch={later}")


def _numbers(form: str, files: HadoopFiles, folder: str = "") -> list[int]:
    """Of the names in a folder that are of this form."""
    return [int(found[1]) for name in files.names(folder) if (found := re.fullmatch(form, name))]


@contextmanager
def _reaching(execution: SparkBatch, obstacle: str) -> Iterator[None]:
    try:
        yield
    except (PySparkException, Py4JJavaError, OSError) as error:
        if execution.is_stopped_by(error):
            raise
        raise LateRowsError(
            f"{obstacle}: {error}. Nothing is lost: once the cause is gone, start the query again; without "
            f"{PREFIX}late its late rows are dropped"
        ) from error


def _beside_folders(rows: DataFrame) -> DataFrame:
    """With other names for columns that are called as folders are, which Spark would read in their place."""
    names = [f"{name}_" if name.lower() in _FOLDERS else name for name in rows.columns]
    return rows.toDF(*distinct(names))
