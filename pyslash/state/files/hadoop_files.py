"""What lies in folders that Spark's own Hadoop reaches, of whatever file system."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


class HadoopFiles:
    """What lies below a location, by paths from there. Every method may raise Py4JJavaError: it cannot be reached."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._jvm: Any = spark._jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._path_class = self._jvm.org.apache.hadoop.fs.Path
        self._root = self._path_class(location)
        self._files = self._root.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())

    @property
    def qualified(self) -> str:
        """The location with its scheme."""
        return str(self._files.makeQualified(self._root))

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return bool(self._files.exists(self._path(path)))

    def names(self, folder: str = "") -> list[str]:
        """Of what is in a folder, in any order; nothing if the folder is not there."""
        if not self.exists(folder):
            return []
        folders = self._gateway.new_array(self._path_class, 1)
        folders[0] = self._path(folder)
        # Of several folders it gives a plain FileStatus[]. Of one, S3's gives its own class, which py4j takes for none.
        paths = self._jvm.org.apache.hadoop.fs.FileUtil.stat2Paths(self._files.listStatus(folders))
        # One text: py4j asks for each element of an array, and each of its fields, by itself.
        found = str(self._jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(paths).mkString("\n"))
        return [path.rpartition("/")[2] for path in found.split("\n") if path]

    def delete(self, path: str) -> None:
        """A file, or a folder with all that is in it.

        Raises:
            OSError: it is still there, or was not.
        """
        if not self._files.delete(self._path(path), True):
            raise OSError(f"{path} is not deleted")

    def _path(self, path: str) -> Any:
        return self._path_class(self._root, path) if path else self._root  # Hadoop has no empty names
