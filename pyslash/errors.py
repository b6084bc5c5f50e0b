"""Every error that pyslash raises. Native code, the JVM's tasks and the agents raise these same classes: one table each
maps what they report. A message names what was wanted, what was found and what to do next.
"""

from __future__ import annotations

import re


class SlashError(Exception):
    """Root of all of them."""


class InvalidPlanError(SlashError):
    """A plan's text does not parse, or names what the native core does not know."""


class InvalidInputError(SlashError):
    """Rows, columns or arguments that do not fit."""


class CorruptBlockError(SlashError):
    """Magic, length or CRC of a block is wrong: its bytes are not to be used."""


class StaleIncarnationError(SlashError):
    """An arena or a block belongs to an agent that is gone."""


class ArenaFullError(SlashError):
    """No gap in an executor's arena is large enough; `spark.slash.arena.size` is its size."""

    @property
    def wanted_bytes(self) -> int:
        """Of the block that found no gap, as the message has it; the error comes as text from tasks and agents."""
        found = re.search(r"room for a block of (\d+) bytes", str(self))
        return int(found[1]) if found else 1


class ArenaBusyError(SlashError):
    """A process has held the lock of an executor's arena for too long: it has been stopped in the middle of work."""


class SpillError(SlashError):
    """An arena is full and its blocks cannot go to the local disk; `spark.slash.spill.*` say where and how many."""


class ArithmeticOverflowError(SlashError):
    """A sum does not fit its type and the query's ANSI mode forbids to wrap; named as Spark names it."""


class NativeError(SlashError):
    """A system call or the JVM failed below pyslash; the message names it."""


class UnsupportedProcessorError(SlashError, ImportError):
    """This machine's processor lacks instructions that the native code is compiled to."""


class ConfigError(SlashError):
    """A `spark.slash.*` value does not parse."""


class UnsupportedQueryError(SlashError):
    """`spark.slash.mode=require`, and the query is not covered; or the session is of a kind that never is."""


class StateLostError(SlashError):
    """Partial window state is out of reach, or was written by another kind of query."""


class CheckpointError(SlashError):
    """A checkpoint's files cannot be written, read or deleted; the message names file and cause."""


class RewoundCheckpointError(SlashError):
    """Spark runs a batch of other rows than the one that the state in the checkpoint has under its number."""


class FencedError(SlashError):
    """Another run of the query has taken its checkpoint over: this one is the older and must end."""


class LateManifestError(SlashError):
    """A driver that was replaced has still written the epoch's manifest: the epoch begins again, from that one."""


class InvalidTransitionError(SlashError):
    """An epoch was told of something that cannot happen in its phase: an error of pyslash itself."""


class PlanMismatchError(SlashError):
    """A checkpoint's state was made by another aggregation."""


class RowBridgeUnavailableError(SlashError):
    """The row bridge's jar is not in this installation, or cannot be added to the session."""


class TransportUnavailableError(SlashError):
    """The transport that the configuration asks for cannot be had for a peer."""


class AgentError(SlashError):
    """An agent, or the way to it, failed; the message names the agent and what was asked of it."""


class AgentStartError(AgentError):
    """An executor's agent could not be started."""


class AgentTimeoutError(AgentError):
    """An agent did not answer within the deadline."""


class AgentUnavailableError(AgentError):
    """Nobody listens where the agent should be."""


class VerbsError(AgentError):
    """An RDMA operation on the way to an agent failed; the message has the completion's status."""


class RemoteAccessError(VerbsError):
    """The RDMA device of an agent's host refused an access: wrong key, out of range, or not allowed."""


class UnauthenticatedError(AgentError):
    """An agent and its client do not prove to each other that they know the query's token."""


class ForbiddenError(AgentError):
    """A call to an agent that the query's token does not allow."""


class InvalidRequestError(AgentError):
    """A call to an agent that is malformed, out of bounds, or contradicts what the agent holds."""
