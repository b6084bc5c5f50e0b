"""Finding pyverbs's parts in its old and its new form, and leaving the application's logging alone."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from pyslash.errors import TransportUnavailableError
from pyslash.rdma import library

# What pyverbs does on import, and a constant as each form has it.
BASE = "import logging\nlogging.basicConfig(level=logging.INFO, force=True)\n"
OLD = {"enums": "IBV_QPT_RC, IBV_WC_REM_ACCESS_ERR = 2, 10\n"}
NEW = {
    "libibverbs_enums": "import enum\n"
    "class ibv_qp_type(enum.IntEnum):\n    IBV_QPT_RC = 2\n"
    "class ibv_wc_status(enum.IntEnum):\n    IBV_WC_REM_ACCESS_ERR = 10\n"
    "globals().update(ibv_qp_type.__members__)\nglobals().update(ibv_wc_status.__members__)\n"
}


@pytest.fixture
def without_pyverbs(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if none had been imported yet."""
    for name in [name for name in sys.modules if name.split(".")[0] == "pyverbs"]:
        monkeypatch.delitem(sys.modules, name)


@pytest.fixture(params=[OLD, NEW], ids=["enums", "libibverbs_enums"])
def made_up(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_pyverbs: None
) -> None:
    """A pyverbs before, and from, version 57."""
    package = tmp_path / "pyverbs"
    package.mkdir()
    parts = {**dict.fromkeys(library._MODULES, ""), "__init__": "", "base": BASE, **request.param}
    parts["device"] = "from pyverbs import base\n"
    parts["cq"] = "def cqe_status_to_str(status):\n    return {10: 'remote access error'}[status]\n"
    for name, text in parts.items():
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    # What was imported from the folder goes with it.
    for name in ("", ".base", *(f".{name}" for name in (*library._MODULES, *request.param))):
        monkeypatch.setitem(sys.modules, f"pyverbs{name}", None)
        monkeypatch.delitem(sys.modules, f"pyverbs{name}")


@pytest.mark.usefixtures("made_up")
def test_constants_and_words_of_either_form() -> None:
    found = library.Library()
    assert found.constant("IBV_QPT_RC") == 2
    assert type(found.constant("IBV_WC_REM_ACCESS_ERR")) is int
    assert found.status_name(found.constant("IBV_WC_REM_ACCESS_ERR")) == "remote access error"
    assert found.device.__name__ == "pyverbs.device"


@pytest.mark.usefixtures("made_up")
def test_logging_stays_as_the_application_has_it() -> None:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    library.Library()
    assert (root.handlers, root.level) == (handlers, level)
    assert logging.getLogger("PyverbsCM").level == logging.WARNING


@pytest.mark.usefixtures("without_pyverbs")
def test_none_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyverbs", None)
    with pytest.raises(TransportUnavailableError, match=r"pyverbs cannot be imported .*python3-pyverbs"):
        library.library.__wrapped__()


def test_the_installed_pyverbs_has_every_name_that_is_used() -> None:
    try:
        verbs = library.library()
    except TransportUnavailableError as error:
        pytest.skip(str(error))
    used = {
        "addr": ("AHAttr", "GID", "GlobalRoute"),
        "cq": ("CQ", "CQEX", "CqInitAttrEx", "PollCqAttr", "cqe_status_to_str"),
        "device": ("Context",),
        "mr": ("MR",),
        "pd": ("PD",),
        "qp": ("QP", "QPAttr", "QPCap", "QPInitAttr"),
        "wr": ("SGE", "SendWR"),
        "pyverbs_error": ("PyverbsError",),
    }
    for module, names in used.items():
        assert [name for name in names if not hasattr(getattr(verbs, module), name)] == []
    constants = ["IBV_QPT_RC", "IBV_WR_RDMA_READ", "IBV_WR_RDMA_WRITE", "IBV_SEND_SIGNALED", "IBV_WC_REM_ACCESS_ERR"]
    constants += ["IBV_ACCESS_LOCAL_WRITE", "IBV_ACCESS_REMOTE_READ", "IBV_ACCESS_REMOTE_WRITE", "IBV_WC_RETRY_EXC_ERR"]
    assert [verbs.constant(name) for name in constants[:5]] == [2, 4, 0, 2, 10]
    assert len({verbs.constant(name) for name in constants[5:8]}) == 3
