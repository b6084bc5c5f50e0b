"""Configuration keys: docs/conf.md and the properties files hold what pyslash/conf.py reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyslash import cli
from pyslash.conf import KEYS, PREFIX

ROOT = Path(__file__).resolve().parents[1]


def test_the_page_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["conf"]) == 0
    printed = capsys.readouterr().out
    assert printed == (ROOT / "docs" / "conf.md").read_text(), "pyslash conf > docs/conf.md"
    assert all(f"| `{name}` |" in printed and key.doc in printed for name, key in KEYS.items())


@pytest.mark.parametrize("file", sorted((ROOT / "spark-conf").glob("*.conf")), ids=lambda file: file.name)
def test_properties_files_set_keys_that_exist_to_values_that_parse(file: Path) -> None:
    lines = [line.split(None, 1) for line in file.read_text().splitlines() if line and not line.startswith("#")]
    assert {"spark.pyspark.driver.python", "spark.slash.mode"} <= {name for name, _ in lines}
    for name, value in lines:
        if name.startswith(PREFIX):
            KEYS[name].parse(value.strip())
