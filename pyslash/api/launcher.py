"""The console script `slash-python`: Python with pyslash enabled in every session that the program creates.

It stands in for the driver's Python, so that a properties file alone turns pyslash on:

    spark.pyspark.driver.python  slash-python

spark-submit then starts `slash-python job.py args...`, with the JVM's port and secret in the environment. The job runs
here as `python job.py args...` would run it: its own `sys.argv`, `sys.path[0]`, `__main__`, exit status and traceback.
Scripts, directories and zip files, `-m module`, `-c code`, standard input, an interactive prompt (which `pyspark` asks
for) and the interpreter's own options are all understood.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import io
import os
import runpy
import sys
import types
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from typing import Any

_SESSION_MODULE = "pyspark.sql.session"
_STARTUP = "PYSLASH_PYTHONSTARTUP"
_OPTIONS_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


def main() -> None:
    """Run the program that `sys.argv[1:]` names, pyslash enabled. Leaves by the program's own exit."""
    # PySpark starts executors' workers with this variable, else with whatever `python3` is on the PATH there.
    # spark-submit has already put `spark.pyspark.python` in it when that is set.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    sys.excepthook = partial(_print_exception, sys.excepthook)
    arguments = sys.argv[1:]
    options, arguments = _split_options(arguments)
    if options:
        os.execv(sys.executable, [sys.executable, *options, "-m", "pyslash.api.launcher", *arguments])
    if not arguments and sys.stdin is not None and sys.stdin.isatty():
        _run_prompt()
    enable_in_new_sessions()
    if not arguments or arguments[0] == "-":
        _run_code(sys.stdin.read(), "<stdin>", [arguments[0] if arguments else "", *arguments[1:]])
    elif arguments[0] == "-c":
        _run_code(_value_of("-c", arguments), "<string>", ["-c", *arguments[2:]])
    elif arguments[0] == "-m":
        _run_module(_value_of("-m", arguments), arguments[2:])
    else:
        _run_file(arguments[0], arguments)


def enable_in_new_sessions() -> None:
    """Call `pyslash.enable(session)` for every classic SparkSession made from now on, however it is made.

    PySpark itself is not imported here: the hook waits for `pyspark.sql.session`, so that a program which sets up its
    environment before its own `import pyspark` finds that import untouched.
    """
    if _SESSION_MODULE in sys.modules:
        _hook_session(sys.modules[_SESSION_MODULE])
    else:
        sys.meta_path.insert(0, _SessionImport())


class _SessionImport(importlib.abc.MetaPathFinder):
    """Finds `pyspark.sql.session` as the other finders do and hooks it once it is loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _SESSION_MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: types.ModuleType) -> None:
                execute(module)
                if module.__name__ == fullname:  # spark-submit brings PySpark as a zip: one loader for all its modules
                    _hook_session(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _hook_session(module: types.ModuleType) -> None:
    """Wrap the one place that every session goes through: builder, `newSession` and direct construction alike.

    The first session of an application brings pyslash to those that are made after it.
    """
    session_class: Any = module.SparkSession
    original = session_class.__init__
    enabled: Any = None

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal enabled
        original(self, *args, **kwargs)
        from pyslash.conf import mode_of

        application = getattr(self, "_sc", self)
        if application is not enabled and mode_of(self.conf.get) != "off":
            import pyslash

            pyslash.enable(self)
            enabled = application

    session_class.__init__ = __init__


def _split_options(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The interpreter's own options (`-u`, `-W error`, `-X dev`...) and the rest, which names the program."""
    end = 0
    while end < len(arguments):
        argument = arguments[end]
        if not argument.startswith("-") or argument == "-" or argument[:2] in ("-c", "-m"):
            break
        end += 2 if argument in _OPTIONS_WITH_VALUE else 1
    rest = arguments[end:]
    if rest and rest[0][:2] in ("-c", "-m") and len(rest[0]) > 2:
        rest[:1] = [rest[0][:2], rest[0][2:]]
    return arguments[:end], rest


def _value_of(option: str, arguments: list[str]) -> str:
    if len(arguments) < 2:
        sys.exit(f"slash-python: argument expected for the {option} option")
    return arguments[1]


def _run_prompt() -> None:
    """Become the interpreter's own prompt; its start-up file brings the hook, then runs the user's (or Spark's) one."""
    os.environ[_STARTUP] = os.environ.get("PYTHONSTARTUP", "")
    os.environ["PYTHONSTARTUP"] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_startup.py")
    os.execv(sys.executable, [sys.executable])


def startup_code() -> types.CodeType:
    """Enable pyslash at a prompt; returns the code of the start-up file that the user had set, to run in `__main__`."""
    enable_in_new_sessions()
    path = os.environ.pop(_STARTUP, "")
    os.environ["PYTHONSTARTUP"] = path
    if not path:
        del os.environ["PYTHONSTARTUP"]
        return compile("", "<startup>", "exec")
    with io.open_code(path) as file:
        return compile(file.read(), path, "exec", dont_inherit=True)


def _run_file(path: str, argv: list[str]) -> None:
    if os.path.isdir(path) or path.endswith(".pyc") or zipfile.is_zipfile(path):
        _set_path0(None if not path.endswith(".pyc") else os.path.dirname(os.path.realpath(path)))
        sys.argv = argv
        runpy.run_path(path, run_name="__main__")
        return
    try:
        with io.open_code(os.path.abspath(path)) as file:
            source = file.read()
    except OSError as error:
        print(
            f"slash-python: can't open file {os.path.abspath(path)!r}: [Errno {error.errno}] {error.strerror}",
            file=sys.stderr,
        )
        sys.exit(2)
    _run_code(source, path, argv, os.path.dirname(os.path.realpath(path)))


def _run_module(name: str, rest: list[str]) -> None:
    _set_path0(os.getcwd())
    sys.argv = ["-m", *rest]
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _run_code(source: str | bytes, filename: str, argv: list[str], path0: str = "") -> None:
    """Run `source` as `__main__`.

    `__main__` stays in place afterwards (runpy would take it away again), for the threads that outlive the main one and
    for cloudpickle, which serialises the functions of `__main__` by value.
    """
    _set_path0(path0)
    sys.argv = argv
    module = types.ModuleType("__main__")
    if not filename.startswith("<"):
        module.__file__ = filename
        module.__loader__ = SourceFileLoader("__main__", filename)
    sys.modules["__main__"] = module
    exec(compile(source, filename, "exec", dont_inherit=True), module.__dict__)


def _set_path0(entry: str | None) -> None:
    """Put `entry` where this script's own directory stands; in safe-path mode Python puts neither there."""
    if not sys.flags.safe_path:
        sys.path[:1] = [] if entry is None else [entry]


def _print_exception(
    show: Callable[..., Any],
    kind: type[BaseException],
    error: BaseException,
    traceback: types.TracebackType | None,
) -> None:
    """Show a traceback that begins where the program's own code begins."""
    frame = traceback
    own = traceback
    while frame is not None:
        name = frame.tb_frame.f_code.co_filename
        if name in (__file__, "<frozen runpy>", runpy.__file__):
            own = frame.tb_next
        elif own is not traceback:
            break
        frame = frame.tb_next
    if own is None and not isinstance(error, SyntaxError):
        own = traceback
    show(kind, error.with_traceback(own), own)


if __name__ == "__main__":
    # A module of its own name, so that `__main__` can be handed to the program.
    from pyslash.api.launcher import main as _main

    _main()
