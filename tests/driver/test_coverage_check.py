"""What an application's own settings ask for that pyslash cannot give."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyslash.conf import Conf
from pyslash.driver.coverage_check import check_encryption
from pyslash.plan.reasons import Uncovered

CLUSTER, LOCAL = "spark://driver:7077", "local[2]"
NETWORK = ["spark.network.crypto.enabled", "spark.authenticate.enableSaslEncryption", "spark.ssl.rpc.enabled"]
SPILLS = "spark.io.encryption.enabled"


def check(master: str, on: list[str], **ours: str) -> None:
    settings = dict.fromkeys(on, "true")
    context = SimpleNamespace(master=master, getConf=lambda: settings)
    session: Any = SimpleNamespace(sparkContext=context)
    check_encryption(session, Conf.read(lambda name, default: ours.get(name.rpartition(".")[2], default)))


@pytest.mark.parametrize("name", NETWORK)
def test_between_hosts_nothing_is_encrypted(name: str) -> None:
    with pytest.raises(Uncovered, match=f"{name}=true"):
        check(CLUSTER, [name])
    with pytest.raises(Uncovered, match=f"{name}=true"):
        check("local-cluster[2,1,1024]", [name])


def test_in_local_mode_nothing_is_sent() -> None:
    check(LOCAL, NETWORK)


@pytest.mark.parametrize("master", [CLUSTER, LOCAL])
def test_what_is_spilled_is_not_encrypted(master: str) -> None:
    with pytest.raises(Uncovered, match=r"spark\.slash\.spill\.maxBytes=0"):
        check(master, [SPILLS])
    check(master, [SPILLS], maxBytes="0")


def test_without_these_settings_there_is_no_obstacle() -> None:
    check(CLUSTER, ["spark.ssl.enabled"])  # of web pages
    check(CLUSTER, [])
