"""The bill of materials of a wheel, beside it: `WHEEL.cdx.json`, in CycloneDX 1.6.

    python scripts/release/sbom.py WHEEL

What is compiled in has the version that compiled it. What the wheel needs where it is installed has the version that it
was tested with, that of requirements/development.txt, with the hashes of its files; a user's pip may take another one
within the ranges of pyproject.toml.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import uuid
import zipfile
from datetime import UTC, datetime
from email.message import Message
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]


def locked(file: str) -> dict[str, tuple[str, list[str]]]:
    """Version and SHA-256 hashes of each package in a file of requirements/."""
    found = {}
    for entry in re.split(r"\n(?=\S)", (ROOT / "requirements" / file).read_text().strip()):
        name, _, rest = entry.partition("==")
        found[canonicalize_name(name.partition("[")[0])] = (
            re.split(r"[ ;\\]", rest, maxsplit=1)[0],
            re.findall(r"--hash=sha256:([0-9a-f]{64})", entry),
        )
    return found


def needs(requirements: list[str]) -> list[str]:
    """The packages that these requirements name, on this Python and without extras."""
    parsed = map(Requirement, requirements)
    return sorted(
        {canonicalize_name(one.name) for one in parsed if not one.marker or one.marker.evaluate({"extra": ""})}
    )


def python_package(name: str, lock: dict[str, tuple[str, list[str]]], scope: str) -> dict[str, Any]:
    """A component for a package of the index."""
    version, hashes = lock[name]
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": f"pkg:pypi/{name}@{version}",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
        "scope": scope,
    }
    if expression := distribution(name).metadata.get("License-Expression"):
        component["licenses"] = [{"expression": expression}]
    # One hash for each file of that version: which of them is installed depends on the machine.
    component["properties"] = [{"name": "pyslash:sha256", "value": value} for value in hashes]
    return component


def compiled_in() -> list[dict[str, Any]]:
    """What the native libraries hold of others."""
    nanobind = python_package("nanobind", locked("backend.txt"), "required")
    nanobind["licenses"] = [{"license": {"id": "BSD-3-Clause"}}]
    gcc = subprocess.run(
        [os.environ.get("CXX", "c++"), "-dumpfullversion"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return [
        nanobind,
        {
            "type": "library",
            "bom-ref": "tsl-robin-map",
            "name": "tsl-robin-map",
            "description": f"header-only, as nanobind {nanobind['version']} brings it",
            "licenses": [{"license": {"id": "MIT"}}],
            "scope": "required",
        },
        {
            "type": "library",
            "bom-ref": f"libstdc++@{gcc}",
            "name": "libstdc++",
            "version": gcc,
            "licenses": [{"expression": "GPL-3.0-or-later WITH GCC-exception-3.1"}],
            "scope": "required",
        },
    ]


def metadata_of(wheel: Path) -> Message:
    """METADATA of a wheel."""
    with zipfile.ZipFile(wheel) as files:
        (name,) = (name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(files.read(name).decode())


def bill(wheel: Path) -> dict[str, Any]:
    """The bill of a wheel: itself, what is compiled in, what it needs, and who needs what."""
    metadata = metadata_of(wheel)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    name, version = metadata["Name"], metadata["Version"]
    lock = locked("development.txt")
    graph: dict[str, list[str]] = {}
    first = needs(metadata.get_all("Requires-Dist") or [])
    waiting = list(first)
    while waiting:
        package = waiting.pop()
        if package not in graph:
            graph[package] = needs(distribution(package).requires or [])
            waiting += graph[package]
    native = compiled_in()
    packages = {package: python_package(package, lock, "required") for package in sorted(graph)}
    reference = {package: component["bom-ref"] for package, component in packages.items()}
    itself = f"pkg:pypi/{name}@{version}"
    built = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", wheel.stat().st_mtime)), UTC)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}",
        "version": 1,
        "metadata": {
            "timestamp": built.isoformat().replace("+00:00", "Z"),
            "component": {
                "type": "library",
                "bom-ref": itself,
                "name": name,
                "version": version,
                "purl": f"{itself}?file_name={wheel.name}",
                "licenses": [{"expression": metadata["License-Expression"]}],
                "hashes": [{"alg": "SHA-256", "content": digest}],
            },
        },
        "components": [*native, *packages.values()],
        "dependencies": [
            {"ref": itself, "dependsOn": [*(part["bom-ref"] for part in native), *(reference[one] for one in first)]},
            {"ref": native[0]["bom-ref"], "dependsOn": ["tsl-robin-map"]},
            *({"ref": reference[one], "dependsOn": [reference[far] for far in graph[one]]} for one in sorted(graph)),
        ],
    }


def main(arguments: list[str]) -> None:
    """Write the bill beside the wheel."""
    wheel = Path(arguments[0])
    wheel.with_name(f"{wheel.name}.cdx.json").write_text(json.dumps(bill(wheel), indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
