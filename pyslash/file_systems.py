"""Hadoop's locations as pyarrow file systems."""

from __future__ import annotations

import errno
import os
import re
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as fs

FILE_ERRORS = (pa.ArrowException, OSError, RuntimeError)
"""What a file system raises that cannot do what it should: hdfs-native has RuntimeErrors."""
_LOCATION = re.compile(r"(?:([^:/]+):)?(?://([^/]*))?(.*)", re.DOTALL)  # scheme, authority, path


def open_location(location: str) -> tuple[Any, str]:
    """The file system of a Hadoop path or URI, and the path in it. Hadoop writes `file:/x` and `s3a://`.

    HDFS is reached by hdfs-native where that is installed, which needs no Java and no library of Hadoop's, else by
    pyarrow's own way through `libhdfs.so`.

    Raises:
        pyarrow.ArrowException, OSError, ValueError: pyarrow has no such file system.
    """
    parts = _LOCATION.fullmatch(location)
    assert parts is not None  # the pattern matches any text
    scheme, authority, path = parts.groups(default="")
    if scheme in ("", "file"):
        return fs.LocalFileSystem(), path
    if scheme in ("s3a", "s3n"):
        scheme = "s3"
    if scheme in ("hdfs", "viewfs") and (client := _hdfs_native(scheme)) is not None:
        return _hdfs(client, authority, path), path.rstrip("/")
    # A Hadoop path's text is not percent-encoded, a URI's is.
    uri = f"{scheme}://{authority}{quote(path)}"
    files, root = _s3(uri) if scheme == "s3" else fs.FileSystem.from_uri(uri)
    return files, root.rstrip("/")


def _s3(uri: str) -> tuple[Any, str]:
    """Its file system, which writes a file of a few MiB by one request instead of three."""
    try:
        found: tuple[Any, str] = fs.FileSystem.from_uri(f"{uri}?allow_delayed_open=true")
    except pa.ArrowInvalid:  # an older pyarrow has no such option
        found = fs.FileSystem.from_uri(uri)
    return found


def _hdfs_native(scheme: str) -> Any:
    """Its file system for fsspec; None: it is not installed."""
    try:
        from hdfs_native import fsspec
    except ImportError:
        return None
    return fsspec.HdfsFileSystem if scheme == "hdfs" else fsspec.ViewfsFileSystem


def _hdfs(client: Any, authority: str, path: str) -> Any:
    """The file system of a name node (`host:port`), or of a name that the files in HADOOP_CONF_DIR resolve."""
    if found := re.search("[?#;]", path):
        raise ValueError(f"hdfs-native takes {found[0]!r} in a path for the end of it: choose another name")
    host = re.sub(r":\d*$", "", authority)  # an address of IPv6 has colons within its brackets
    port = authority[len(host) + 1 :]
    return fs.PyFileSystem(fs.FSSpecHandler(client(host, int(port)) if port else client(host or None)))


def reason_of(error: Exception) -> str:
    """What an error of a file system says, without the stack of another process behind it."""
    return re.split(r"\n|\\n", str(error))[0] or repr(error)


def obstacle_of(location: str, timeout_seconds: float = 20.0) -> str | None:
    """Why pyarrow cannot write files under this location; None if it can. A file is written there and deleted.

    A local folder is not tried: Spark writes there itself. Of any other, this process alone is asked: an executor may
    lack a library, or credentials, that the driver has.

    Args:
        location: a Hadoop path or URI, qualified: one without a scheme is local, whatever `fs.defaultFS` says.
        timeout_seconds: some clients go on for minutes where a store does not answer, or has nothing to log in with.
    """
    answers: list[str | None] = []
    # A daemon: nobody waits for what has not answered in time.
    probe = threading.Thread(target=lambda: answers.append(_probe(location)), name="slash-probe", daemon=True)
    probe.start()
    probe.join(timeout_seconds)
    return answers[0] if answers else f"pyarrow has no answer from {location} after {timeout_seconds:g} s"


def _probe(location: str) -> str | None:
    try:
        files, root = open_location(location)
        if isinstance(files, fs.LocalFileSystem):
            return None
        path, content = f"{root}/.slash-probe-{uuid4().hex}", b"pyslash tries whether it can write here\n"
        with files.open_output_stream(path) as stream:
            stream.write(content)
        with files.open_input_stream(path) as stream:
            found = stream.read()
        files.delete_file(path)
    except Exception as error:  # whatever a client raises, it is the reason
        hint = "; `pip install hdfs-native fsspec` beside every pyslash" if "Unable to load lib" in str(error) else ""
        return f"pyarrow cannot write to {location}: {reason_of(error)}{hint}"
    return None if found == content else f"pyarrow cannot read what it has written to {location}"


def sync(path: str | Path) -> None:
    """Wait until a local file, or the names in a local folder, are on the disk.

    Raises:
        OSError: they cannot be written.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL or not os.path.isdir(path):  # some network file systems sync no folders
            raise
    finally:
        os.close(handle)
