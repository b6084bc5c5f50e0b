"""What spark-conf/kubernetes hands to Kubernetes, against Kubernetes' own schemas, which know no other fields.

Of the oldest release that the schemas have, and of the newest.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft4Validator
from packaging.version import Version
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT4

from tests.support.schemas import fetched

FOLDER = Path(__file__).resolve().parents[2] / "spark-conf" / "kubernetes"
SCHEMAS = re.compile(r"kubernetes_validate/kubernetes-json-schema/v([\d.]+)-local-strict/_definitions\.json")
DEFINITIONS = "/api/_definitions.json"
KINDS = {
    "ServiceAccount": "serviceaccount-v1",
    "Role": "role-rbac-v1",
    "RoleBinding": "rolebinding-rbac-v1",
    "NetworkPolicy": "networkpolicy-networking-v1",
    "Pod": "pod-v1",
}


def objects() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each object of the manifests, with its file."""
    for path in sorted(FOLDER.glob("*.yaml")):
        yield from ((path.name, made) for made in yaml.safe_load_all(path.read_text()))


class Schemas:
    """The schemas of a release of Kubernetes, by kind."""

    def __init__(self, archive: zipfile.ZipFile, folder: str) -> None:
        self._archive, self._folder = archive, folder
        contents = json.loads(archive.read(f"{folder}/_definitions.json"))
        definitions = Resource.from_contents(contents, default_specification=DRAFT4)
        self._registry: Registry[Any] = Registry().with_resource(DEFINITIONS, definitions)

    def errors(self, made: dict[str, Any]) -> list[str]:
        """What is wrong with an object."""
        schema = json.loads(self._archive.read(f"{self._folder}/{KINDS[made['kind']]}.json"))
        return [error.message for error in Draft4Validator(schema, registry=self._registry).iter_errors(made)]


@pytest.fixture(scope="module", params=["oldest", "newest"])
def schemas(request: pytest.FixtureRequest) -> Iterator[Schemas]:
    with zipfile.ZipFile(fetched("kubernetes_validate-*.whl")) as archive:
        found = {Version(match[1]): name for name in archive.namelist() if (match := SCHEMAS.fullmatch(name))}
        assert len(found) > 5
        chosen = min(found) if request.param == "oldest" else max(found)
        yield Schemas(archive, found[chosen].rpartition("/")[0])


def test_every_object_is_one_that_kubernetes_takes(schemas: Schemas) -> None:
    found = list(objects())
    assert {made["kind"] for _, made in found} == set(KINDS)
    assert {(file, made["kind"]): wrong for file, made in found if (wrong := schemas.errors(made))} == {}


def test_what_kubernetes_does_not_take_is_found(schemas: Schemas) -> None:
    made = {made["kind"]: made for _, made in objects()}
    (container,) = made["Pod"]["spec"]["containers"]
    container["securityContext"]["capabilites"] = container["securityContext"].pop("capabilities")
    assert any("capabilites" in wrong for wrong in schemas.errors(made["Pod"]))
    made["Role"]["rules"][0]["verbs"] = "get"
    assert any("'get' is not of type" in wrong for wrong in schemas.errors(made["Role"]))


def test_the_account_is_the_one_that_k8s_conf_names() -> None:
    settings = (FOLDER.parent / "k8s.conf").read_text()
    made = {made["kind"]: made for _, made in objects()}
    name = re.search(r"^spark\.kubernetes\.authenticate\.driver\.serviceAccountName +(\S+)$", settings, re.MULTILINE)
    assert name
    assert made["ServiceAccount"]["metadata"]["name"] == name[1]
    assert [subject["name"] for subject in made["RoleBinding"]["subjects"]] == [name[1]]
    assert made["RoleBinding"]["roleRef"]["name"] == made["Role"]["metadata"]["name"]
