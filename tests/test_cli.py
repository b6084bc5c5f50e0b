"""The command `pyslash`."""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys

import pytest

import pyslash
from pyslash import cli
from pyslash.demo import main as demo


def test_every_command_has_its_two_functions() -> None:
    for command in cli.COMMANDS:
        module = importlib.import_module(command.module)
        parser = argparse.ArgumentParser()
        module.add_arguments(parser)
        assert callable(module.main)


def test_a_command_gets_its_arguments_and_gives_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(demo, "main", lambda args: seen.append(args.files) or 3)
    assert cli.main(["demo", "--files", "7"]) == 3
    assert seen == [7]


@pytest.mark.parametrize("arguments", [[], ["nothing"]])
def test_a_missing_or_unknown_command_is_a_usage_error(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["pyslash"])
    with pytest.raises(SystemExit) as error:
        cli.main(arguments)
    assert error.value.code == 2
    assert "COMMAND" in capsys.readouterr().err


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    text = capsys.readouterr().out
    assert all(command.name in text for command in cli.COMMANDS)


@pytest.mark.parametrize("program", [["-m", "pyslash"], ["-c", "from pyslash.cli import main; main()"]])
def test_its_version(program: list[str]) -> None:
    done = subprocess.run([sys.executable, *program, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"pyslash {pyslash.__version__}\n"


def test_nothing_is_said_when_a_pipe_s_reader_has_seen_enough() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as output:
        command = [sys.executable, "-m", "pyslash", "conf"]
        done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (141, "")


def test_another_pipe_that_breaks_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(_: argparse.Namespace) -> int:
        raise BrokenPipeError("of a socket")

    monkeypatch.setattr(demo, "main", breaks)
    with pytest.raises(BrokenPipeError, match="of a socket"):
        cli.main(["demo"])


def test_ctrl_c_ends_a_command_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "main", interrupted)
    assert cli.main(["demo"]) == 130


@pytest.mark.parametrize(
    "arguments", [["--files", "0"], ["--files-per-trigger", "-1"], ["--limit", "x"], ["--years", "-1"]]
)
def test_a_wrong_number_is_told_before_anything_runs(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "main", lambda args: pytest.fail(f"it ran with {args}"))
    with pytest.raises(SystemExit) as ended:
        cli.main(["demo", *arguments])
    assert ended.value.code == 2
    assert f"argument {arguments[0]}: " in capsys.readouterr().err
