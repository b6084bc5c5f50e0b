"""A processor that is too old is named before native code is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyslash.errors import UnsupportedProcessorError
from pyslash.processor import X86_64_V3, check_processor

FLAGS = " ".join(sorted(X86_64_V3))


def test_this_machine_runs_the_tests() -> None:
    check_processor()


def test_what_is_missing_is_named() -> None:
    old = FLAGS.replace("avx2 ", "").replace("bmi2", "")
    with pytest.raises(UnsupportedProcessorError, match="lacks avx2, bmi2"):
        check_processor("x86_64", f"processor : 0\nflags\t\t: fpu {old}\n")


def test_it_is_an_import_error() -> None:
    with pytest.raises(ImportError):
        check_processor("x86_64", "flags : fpu\n")


@pytest.mark.parametrize(
    ("machine", "cpuinfo"),
    [("x86_64", f"flags : {FLAGS} fpu\n"), ("aarch64", "Features : asimd\n"), ("x86_64", "nothing is said\n")],
)
def test_what_suffices_or_is_not_known_passes(machine: str, cpuinfo: str) -> None:
    check_processor(machine, cpuinfo)


def test_the_native_code_is_compiled_to_just_that() -> None:
    text = (Path(__file__).parents[1] / "native/core/CMakeLists.txt").read_text()
    assert "-march=x86-64-v3" in text
