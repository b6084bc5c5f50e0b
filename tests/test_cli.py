"""The command `pyslash`."""

from __future__ import annotations

import argparse
import importlib
import sys

import pytest

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
