"""pyverbs, version 44 or later, imported only when there is a device to open."""

from __future__ import annotations

import enum
import functools
import importlib
import logging
from collections.abc import Mapping
from typing import Any

from pyslash.errors import TransportUnavailableError

_MODULES = ("addr", "cq", "device", "mr", "pd", "qp", "wr", "pyverbs_error")
# Version 57 moved the enums, and took their members out of the module.
_ENUMS = ("pyverbs.libibverbs_enums", "pyverbs.enums")


class Library:
    """The modules of pyverbs as attributes (`library.qp.QP`), and its constants by `constant`."""

    def __init__(self) -> None:
        """Imports.

        Raises:
            ImportError: pyverbs, or the libibverbs that it is linked with, is not installed.
        """
        root = logging.getLogger()
        handlers, level = list(root.handlers), root.level
        try:
            for name in _MODULES:
                setattr(self, name, importlib.import_module(f"pyverbs.{name}"))
            self._constants = _constants(_enums())
        finally:
            # pyverbs calls logging.basicConfig: the application's logging is not ours to configure.
            root.handlers[:] = handlers
            root.setLevel(level)
        # pyverbs writes a line for each object that it closes.
        for name in ("PyverbsCM", "PyverbsObject"):
            logging.getLogger(name).setLevel(logging.WARNING)

    def __getattr__(self, name: str) -> Any:
        """Only for type checkers: the modules are set when they have been imported."""
        raise AttributeError(name)

    def constant(self, name: str) -> int:
        """The value of `name`, such as IBV_ACCESS_REMOTE_READ; enums of older and newer versions alike."""
        return self._constants[name]

    def status_name(self, status: int) -> str:
        """A completion's status in libibverbs's words."""
        return str(self.cq.cqe_status_to_str(status)) if hasattr(self.cq, "cqe_status_to_str") else f"status {status}"


@functools.cache
def library() -> Library:
    """Pyverbs.

    Raises:
        TransportUnavailableError: it cannot be imported; the message says what to install.
    """
    try:
        return Library()
    except ImportError as error:
        raise TransportUnavailableError(
            f"pyverbs cannot be imported ({error}): install the distribution's python3-pyverbs where its Python is of "
            "this version, or `pip install pyverbs` against an installed libibverbs of the same version"
        ) from None


def _enums() -> Any:
    for name in _ENUMS[:-1]:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return importlib.import_module(_ENUMS[-1])


def _constants(module: Any) -> dict[str, int]:
    """The module's own numbers, and those of the enums in it."""
    found = {name: value for name, value in vars(module).items() if isinstance(value, int)}
    for kind in vars(module).values():
        if isinstance(kind, enum.EnumMeta):
            members: Mapping[str, Any] = kind.__members__
            found.update((name, int(member)) for name, member in members.items())
    return found
