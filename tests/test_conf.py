"""Configuration keys: docs/conf.md and the properties files hold what pyslash/conf.py reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyslash import cli
from pyslash.conf import KEYS, PREFIX, Conf, check_names, parse_bytes, parse_seconds, read_properties
from pyslash.errors import ConfigError

ROOT = Path(__file__).resolve().parents[1]


def test_the_page_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["conf"]) == 0
    printed = capsys.readouterr().out
    assert printed == (ROOT / "docs" / "conf.md").read_text(), "pyslash conf > docs/conf.md"
    assert all(f"| `{name}` |" in printed and key.doc in printed for name, key in KEYS.items())


@pytest.mark.parametrize("file", sorted((ROOT / "spark-conf").glob("*.conf")), ids=lambda file: file.name)
def test_properties_files_set_keys_that_exist_to_values_that_parse(file: Path) -> None:
    lines = [line.split(None, 1) for line in file.read_text().splitlines() if line and not line.startswith("#")]
    assert {"spark.plugins", "spark.slash.mode"} <= {name for name, _ in lines}
    for name, value in lines:
        if name.startswith(PREFIX):
            KEYS[name].parse(value.strip())


def test_properties_are_read_as_spark_submit_reads_them(tmp_path: Path) -> None:
    text = "# no\n! no\na.b 1 2\nc=3\n  d : 4\ne\t=\t5\nf one,\\\n    two\ng = h=i\nj\n"
    (tmp_path / "x.conf").write_text(text)
    read = {"a.b": "1 2", "c": "3", "d": "4", "e": "5", "f": "one,two", "g": "h=i", "j": ""}
    assert read_properties(tmp_path / "x.conf") == read


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30),
        ("30s", 30),
        (" 30 S ", 30),
        ("2m", 120),
        ("2min", 120),
        ("1h", 3600),
        ("1d", 86400),
        ("999us", 1),
        ("1500ms", 2),
    ],
)
def test_times_are_written_as_in_spark(text: str, seconds: int) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "1.5s", "30 fortnights", "0", "0ms", "25h", "\u00b2"])
def test_what_is_no_time_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^spark\.slash\.agent\.callTimeout: "):
        Conf.read({"spark.slash.agent.callTimeout": text}.get)


@pytest.mark.parametrize(
    ("text", "size"),
    [("512", 512), ("1k", 1024), ("1kb", 1024), ("64 MiB", 64 << 20), ("2G", 2 << 30), ("1p", 1 << 50)],
)
def test_sizes_are_written_as_in_spark(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("arena.size", "0", "is not a positive size"),
        ("arena.size", "1.5g", "is not a size such as 512m or 2g"),
        ("arena.size", "8192p", "is more than"),
        ("merge.taskBytes", "0b", "is not a positive size"),
        ("agent.startTimeout", "11min", "is not between 1s and 600s"),
        ("progress.retained", "many", "is not a positive number"),
        ("progress.retained", "99999999999", "is not a positive number"),
        ("mode", "required", "is not one of auto, require, off"),
        ("ingest", "arrow", "is not one of auto, files, rows"),
        ("processors", "true", "is not one of off, on"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_its_key(name: str, value: str, why: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{PREFIX}{name}: '{value}' {why}"):
        Conf.read({PREFIX + name: value}.get)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("mdoe", "mode"), ("Mode", "mode"), ("arenaSize", "arena.size"), ("agent.starttimeout", "agent.startTimeout")],
)
def test_a_key_that_does_not_exist_is_an_error_with_the_nearest(name: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=rf"{PREFIX}{name} is no key of pyslash: do you mean {PREFIX}{meant}\?"):
        check_names(["spark.master", PREFIX + "mode", PREFIX + name])


def test_a_key_that_is_near_none_is_an_error_with_where_they_are() -> None:
    with pytest.raises(ConfigError, match="`pyslash conf` lists all"):
        check_names([PREFIX + "xyzzy"])


@pytest.mark.parametrize(
    ("name", "instead"), [("early", "in which Spark emits them"), ("replication", "to replica or both")]
)
def test_a_key_that_there_was_is_an_error_with_what_takes_its_place(name: str, instead: str) -> None:
    with pytest.raises(ConfigError, match=rf"{PREFIX}{name} is no key of pyslash: .*{instead}"):
        check_names([PREFIX + name])


def test_every_key_and_those_of_others_are_known() -> None:
    check_names([*KEYS, "spark.slashes", "spark.app.name"])
