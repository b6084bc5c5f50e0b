"""Refusals of pyslash, raised in the job by their own classes.

A query starts in the JVM, which asks Python about it, and a refusal comes back as one of Java's exceptions, whose words
begin with the name of our class. PySpark makes Python exceptions of the JVM's in one function.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pyspark.errors.exceptions import captured

from pyslash import errors

_REFUSAL = re.compile(r"(?:java\.lang\.(?:UnsupportedOperation|IllegalArgument)Exception: )(\w+): (.*)", re.DOTALL)
_sparks: Callable[[Any], Exception] | None = None


def install() -> None:
    """Put it in place; once is enough, and again does nothing."""
    global _sparks
    if _sparks is None:
        _sparks = captured.convert_exception
        captured.convert_exception = _converted


def uninstall() -> None:
    """Leave all exceptions to PySpark again."""
    global _sparks
    if _sparks is not None:
        captured.convert_exception = _sparks
        _sparks = None


def _converted(thrown: Any) -> Exception:
    """Ours if it is a refusal; else what PySpark makes of it."""
    refusal = _REFUSAL.fullmatch(str(thrown.toString()))
    ours = errors.class_of(refusal[1]) if refusal is not None else None
    if refusal is not None and ours is not None:
        return ours(refusal[2])
    return (_sparks or captured.convert_exception)(thrown)
