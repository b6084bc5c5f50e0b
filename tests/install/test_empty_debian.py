"""From an empty Debian: two commands to a verified result, and what the image's recipe makes of one."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.install.debian import Debian
from tests.support.example import EXAMPLES
from tests.support.page_views import FILES, write_views

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "spark-conf" / "kubernetes" / "Dockerfile"
SECONDS = 60
JAVA_AND_PYTHON = (
    "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "
    "openjdk-17-jre-headless procps python3-venv"
)
# Seconds, and those of processor, in programs and in the kernel.
TIMED = re.compile(r"^took ([\d.]+) ([\d.]+) ([\d.]+)$", re.MULTILINE)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_two_commands_lead_to_a_verified_result(
    debian: Debian, wheel: Callable[[str], Path], record_property: Callable[[str, object], None]
) -> None:
    """What they take after the download is below the minute: by the clock, or of processor time where others work."""
    debian.run(f"{JAVA_AND_PYTHON} && python3 -m venv /environment")
    debian.environment["PATH"] = f"/environment/bin:{debian.environment['PATH']}"
    wheel_file = Path(shutil.copy(wheel("cp311"), debian.at("/"))).name
    wanted = f"'/{wheel_file}[kafka,demo]'"
    # Sources among them are built where they are installed, by what pip would download for that.
    debian.run(f"pip download -q -d /downloaded setuptools wheel && pip download -q -d /downloaded {wanted}")
    took = []
    for command in (f"pip install -q --no-index --find-links /downloaded {wanted}", "pyslash demo --quick"):
        said = debian.run(f"TIMEFORMAT='took %R %U %S'; time {command}")
        (found,) = TIMED.findall(said)
        took.append([float(seconds) for seconds in found])
    assert "Results identical row by row, a part: yes" in said
    seconds, of_processor = sum(each[0] for each in took), sum(each[1] + each[2] for each in took)
    record_property("seconds after the download", round(seconds))
    print(f"after the download: {seconds:.0f} s, {of_processor:.0f} s of processor: {took}")
    assert min(seconds, of_processor) < SECONDS


def instructions() -> Iterator[tuple[str, str]]:
    """Those of the image's recipe, with what follows them."""
    lines = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    yield from (tuple(line.split(maxsplit=1)) for line in lines.splitlines() if line)  # type: ignore[misc]


def follow(debian: Debian) -> list[str]:
    """Do what the recipe says; the image's entry point."""
    entry_point: list[str] = []
    for name, words in instructions():
        if name == "FROM":
            assert words == "debian:12-slim"
        elif name == "RUN":
            debian.run(words)
        elif name == "COPY":
            *sources, target = words.split()
            for source in (path for pattern in sources for path in ROOT.glob(pattern)):
                shutil.copy(source, debian.at(target))
        elif name in ("ARG", "ENV"):
            debian.environment |= dict(re.findall(r'(\w+)="?([^"\s]+)"?', words))
        elif name == "WORKDIR":
            debian.work = words
        elif name == "USER":
            debian.user = f"{words}:0"
        elif name == "ENTRYPOINT":
            entry_point = json.loads(words)
        else:
            raise AssertionError(f"what does {name} do?")
    return entry_point


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_the_image_runs_a_job_that_does_not_know_pyslash(debian: Debian, wheel: Callable[[str], Path]) -> None:
    """Its steps in an empty root, and then its entry point as a driver's pod calls it, with the lines of k8s.conf."""
    wheel("cp311")
    entry_point = follow(debian)
    write_views(debian.at("/opt/work/views"))
    shutil.copy(EXAMPLES / "page_views_sql.py", debian.at("/opt/job.py"))
    conf = (ROOT / "spark-conf" / "k8s.conf").read_text()
    offered = re.findall(r"^(spark\.(?:plugins|jars|pyspark\.driver\.python)) +(\S+)$", conf, re.MULTILINE)
    assert len(offered) == 3
    settings = {**dict(offered), "spark.slash.mode": "require", "spark.sql.shuffle.partitions": "2"}
    debian.environment["SPARK_DRIVER_BIND_ADDRESS"] = debian.environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    given = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    job = ["local:///opt/job.py", "/opt/work/views", "/opt/work/counts", "/opt/work/checkpoint", "1"]
    said = debian.run('exec "$@"', *entry_point, "driver", "--master", "local[2]", *given, *job)
    assert "runs on pyslash" in said
    assert debian.at("/opt/work/checkpoint/slash").is_dir()
    assert debian.at("/opt/work/checkpoint/slash").stat().st_uid == 185
    counts = debian.at("/opt/work/counts")
    logs = [log.read_text().splitlines()[1:] for log in sorted(counts.glob("_spark_metadata/[0-9]*"))]
    names = [Path(json.loads(line)["path"]).name for lines in logs for line in lines]
    assert sum(pq.read_metadata(counts / name).num_rows for name in names) == 3 * (FILES - 1)
