"""The agents of `tests/agent`, for whoever reads from them."""

from tests.agent.conftest import agent, client, jvm, request_agent, runtime_root, secret

__all__ = ["agent", "client", "jvm", "request_agent", "runtime_root", "secret"]
