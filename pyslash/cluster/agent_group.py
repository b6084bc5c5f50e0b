"""The agents of one query, and calls to all of them at the same time, by threads that stay from call to call."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TypeVar

from pyslash.errors import AgentError, AgentTimeoutError, StaleIncarnationError, StateLostError
from pyslash.protocol.client import AgentClient, Described
from pyslash.protocol.descriptor import AgentDescriptor
from pyslash.protocol.token import query_token

# An agent that says nothing for so long, where all it has to do is answer, is given up.
_PROBE_SECONDS = 5.0
_MOST_THREADS = 32

Result = TypeVar("Result")


class AgentGroup:
    """Every agent that holds state of a query, or is about to. Agents are named by their incarnations."""

    def __init__(
        self,
        query_id: bytes,
        secret: bytes,
        timeout_seconds: float,
        client: Callable[..., AgentClient] = AgentClient,
        pool: Callable[..., Executor] = ThreadPoolExecutor,
    ) -> None:
        """`client` makes what calls an agent, `pool` what calls several at the same time."""
        self._query_id = query_id
        self._secret, self._token = secret, query_token(secret, query_id)
        self._timeout = timeout_seconds
        self._probe_timeout = min(timeout_seconds, _PROBE_SECONDS)
        self._client, self._pool = client, pool
        self._threads: Executor | None = None  # once there are several agents
        self._clients: dict[str, AgentClient] = {}

    @property
    def agents(self) -> list[AgentDescriptor]:
        """Every agent."""
        return [client.descriptor for client in self._each_client()]

    @property
    def names(self) -> list[str]:
        """Of every agent."""
        return list(self._clients)

    def agent(self, name: str) -> AgentDescriptor:
        """The agent of this name."""
        return self._clients[name].descriptor

    def add_agents(self, agents: Collection[AgentDescriptor]) -> None:
        """Add these agents, whether they hold state yet or not."""
        for agent in agents:
            if agent.incarnation not in self._clients:
                self._clients[agent.incarnation] = self._client_of(agent)

    def _each_client(self) -> list[AgentClient]:
        # At once: a thread that works beside the query's own may add agents at any time.
        return list(self._clients.values())

    def _client_of(self, agent: AgentDescriptor) -> AgentClient:
        return self._client(agent, self._query_id, self._token, timeout_seconds=self._timeout, secret=self._secret)

    def beside(self, agents: Collection[AgentDescriptor]) -> AgentGroup:
        """A group of those of these agents that are not of this one. The caller closes it."""
        group = AgentGroup(self._query_id, self._secret, self._timeout, self._client, self._pool)
        group.add_agents([agent for agent in agents if agent.incarnation not in self._clients])
        return group

    def another(self, name: str) -> AgentClient:
        """Another client of the agent of this name, which the caller closes."""
        return self._client_of(self.agent(name))

    def keep(self, names: Collection[str]) -> None:
        """Forget all others."""
        for gone in self._clients.keys() - set(names):
            self._clients.pop(gone).close()

    def close(self) -> None:
        """Forget all agents; their state stays."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown()

    def each(self, call: Callable[[AgentClient], Result]) -> dict[str, Result]:
        """Make the call on every agent, on all at the same time.

        Raises:
            StateLostError: one is gone, or does not answer.
        """
        clients = self._each_client()
        try:
            return dict(zip(map(name_of, clients), self._made(call, clients), strict=True))
        except (AgentError, StaleIncarnationError) as error:
            raise StateLostError(
                f"the state of the query cannot be reached: {error}. With spark.slash.durability=checkpoint, replica "
                "or both it comes back; otherwise restart the query with a new checkpointLocation."
            ) from error

    def _made(self, call: Callable[[AgentClient], Result], clients: list[AgentClient]) -> list[Result]:
        """What the calls give. If one fails, the others have ended before its error is raised."""
        if len(clients) <= 1:
            return [call(client) for client in clients]
        if self._threads is None:
            self._threads = self._pool(_MOST_THREADS, thread_name_prefix="pyslash-coordinator")

        def made(client: AgentClient) -> Result | Exception:
            try:
                return call(client)
            except Exception as failure:
                return failure

        results: list[Result] = []
        for outcome in list(self._threads.map(made, clients)):
            if isinstance(outcome, Exception):
                raise outcome
            results.append(outcome)
        return results

    def describe(self) -> dict[str, Described]:
        """The state of each agent that answers."""

        def ask(client: AgentClient) -> Described | None:
            try:
                return client.describe(self._probe_timeout)
            except (AgentError, StaleIncarnationError):
                return None

        return {name: held for name, held in self.each(ask).items() if held is not None}

    def lost(self) -> list[AgentDescriptor]:
        """Agents that do not answer now."""
        answered = self.describe()
        return [client.descriptor for client in self._each_client() if name_of(client) not in answered]

    def probe(self, agents: Collection[AgentDescriptor]) -> tuple[list[AgentDescriptor], bool]:
        """Those of these agents that answer, and whether another one may be alive without answering.

        All agents are forgotten then.
        """
        silent = False

        def ask(client: AgentClient) -> AgentDescriptor | None:
            nonlocal silent
            try:
                client.describe(self._probe_timeout)
                return client.descriptor
            except AgentTimeoutError:
                silent = True
            except (AgentError, StaleIncarnationError):
                pass
            return None

        self.add_agents(agents)
        answered = self.each(ask)
        self.close()
        return [agent for agent in answered.values() if agent is not None], silent


def name_of(client: AgentClient) -> str:
    """The incarnation of the agent that a client calls."""
    return client.descriptor.incarnation
