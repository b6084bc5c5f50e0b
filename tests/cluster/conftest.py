"""The agents of `tests/agent`, for what a driver asks of several."""

from tests.agent.conftest import jvm, request_agent, runtime_root, secret, start

__all__ = ["jvm", "request_agent", "runtime_root", "secret", "start"]
