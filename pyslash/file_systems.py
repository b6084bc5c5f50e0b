"""Hadoop's locations as pyarrow's file systems."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pyarrow.fs as fs

_LOCATION = re.compile(r"(?:([^:/]+):)?(?://([^/]*))?(.*)", re.DOTALL)  # scheme, authority, path


def open_location(location: str) -> tuple[Any, str]:
    """The file system of a Hadoop path or URI, and the path in it. Hadoop writes `file:/x` and `s3a://`.

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
    # A Hadoop path's text is not percent-encoded, a URI's is.
    files, root = fs.FileSystem.from_uri(f"{scheme}://{authority}{quote(path)}")
    return files, root.rstrip("/")
