"""Configuration keys: docs/conf.md and the properties files hold what pyslash/conf.py reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyslash.conf import KEYS, PREFIX

ROOT = Path(__file__).resolve().parents[1]
ROW = re.compile(r"^\| `(spark\.slash\.\S+)` \| `(.*?)` \| (.*) \|$", re.MULTILINE)


def test_the_page_has_every_key_its_default_and_its_meaning() -> None:
    found = [(name, default, doc) for name, default, doc in ROW.findall((ROOT / "docs" / "conf.md").read_text())]
    assert found == [(name, key.default, key.doc) for name, key in KEYS.items()]


@pytest.mark.parametrize("file", sorted((ROOT / "spark-conf").glob("*.conf")), ids=lambda file: file.name)
def test_properties_files_set_keys_that_exist_to_values_that_parse(file: Path) -> None:
    lines = [line.split(None, 1) for line in file.read_text().splitlines() if line and not line.startswith("#")]
    assert {"spark.pyspark.driver.python", "spark.slash.mode"} <= {name for name, _ in lines}
    for name, value in lines:
        if name.startswith(PREFIX):
            KEYS[name].parse(value.strip())
