"""How a run of a query begins."""

from __future__ import annotations

import secrets
from types import SimpleNamespace
from typing import Any

from pyslash.conf import Conf
from pyslash.driver.ports import Ports
from pyslash.driver.restart.recovery import Recovery
from pyslash.errors import AgentStartError, CorruptBlockError


def test_what_may_pass_is_tried_again_and_what_is_wrong_with_a_file_is_not() -> None:
    plan: Any = SimpleNamespace()
    made = Recovery(plan, Conf.read(lambda _, default: default), secrets.token_bytes(32), Ports())
    assert made.may_succeed_after(RuntimeError("a job failed"))
    assert made.may_succeed_after(AgentStartError("no answer within 30 s"))
    assert not made.may_succeed_after(CorruptBlockError("torn"))
