"""Every error that pyslash raises. Native code, the JVM, Python tasks and agents report the same classes, by name
(`class_of`). A message names what was expected, what was found and what to do next.

docs/troubleshooting.md has an entry for each of them.
"""

from __future__ import annotations

import re


class SlashError(Exception):
    """Base class of every error that pyslash raises."""


class InvalidPlanError(SlashError):
    """The text of a plan does not parse, or uses a type or function that the native core does not know."""


class InvalidInputError(SlashError):
    """Rows, columns or arguments do not fit the plan or the call."""


class CorruptBlockError(SlashError):
    """The magic, the length or a CRC of a block is wrong. Its bytes are never used."""


class StaleIncarnationError(SlashError):
    """An arena or a block belongs to an agent that no longer exists."""


class ArenaFullError(SlashError):
    """No free range in an executor's arena is large enough for a block. `spark.slash.arena.size` sets its size."""

    @property
    def wanted_bytes(self) -> int:
        """Size of the block that did not fit, parsed from the message: tasks and agents send the error as text."""
        found = re.search(r"room for a block of (\d+) bytes", str(self))
        return int(found[1]) if found else 1


class ArenaBusyError(SlashError):
    """A process has held the lock of an executor's arena for too long, because it was stopped while it held it."""


class SpillError(SlashError):
    """An arena is full, and its blocks cannot be spilled to disk. `spark.slash.spill.*` set where and how much."""


class ArithmeticOverflowError(SlashError):
    """A sum does not fit its type, or a divisor is too small for a double, and ANSI mode makes that an error.

    The message has Spark's error name.
    """


class NativeError(SlashError):
    """A system call or the JVM failed under native code. The message names it."""


class UnsupportedProcessorError(SlashError, ImportError):
    """This machine's processor lacks instructions that the native code uses."""


class ConfigError(SlashError):
    """A `spark.slash.*` value does not parse."""


class UnsupportedQueryError(SlashError):
    """pyslash must run the query (`spark.slash.mode=require`, or the state is its own) and does not cover it.

    Also: the session is a Spark Connect session.
    """


class StateLostError(SlashError):
    """The state of the query is in no memory and in no file that pyslash can read."""


class CheckpointError(SlashError):
    """A file of the checkpoint cannot be written, read or deleted. The message names the file and the cause."""


class RewoundCheckpointError(SlashError):
    """Spark starts a batch whose number stands for other rows in the state: the checkpoint was rewound."""


class FencedError(SlashError):
    """Another driver has taken over the checkpoint of the query, so this one must end."""


class BacklogExpiredError(SlashError):
    """Records or files have waited behind newer ones for longer than `spark.slash.backlog.expire`. None is lost."""


class LateRowsError(SlashError):
    """Rows that came too late cannot be written to `spark.slash.late`. The next start repeats the micro-batch."""


class LateManifestError(SlashError):
    """A driver that was replaced still wrote the manifest of the epoch. The epoch starts over from that manifest."""


class InvalidTransitionError(SlashError):
    """An event reached an epoch in a phase in which it cannot happen. This is a bug in pyslash."""


class WatermarkError(SlashError):
    """Rows with event times were read, and Spark has collected none of the times: its watermark would stand still."""


class PlanMismatchError(SlashError):
    """The state in the checkpoint belongs to a different query."""


class StateValueError(SlashError):
    """A processor has put a value into its state that Spark would cast, and pyslash does not."""


class StateVariableError(SlashError):
    """The init of a processor has declared other state variables in a task than in the driver."""


class RowBridgeUnavailableError(SlashError):
    """The jar of the row bridge is not in this installation, or cannot be added to the session."""


class UnknownSparkError(RowBridgeUnavailableError):
    """This release of Spark lacks a class or a member that pyslash takes by name."""


class TransportUnavailableError(SlashError):
    """The transport that `spark.slash.transport` requires cannot be used for a peer."""


class AgentError(SlashError):
    """An agent, or the connection to it, failed. The message names the agent and the call."""


class AgentStartError(AgentError):
    """The agent of an executor did not start."""


class AgentTimeoutError(AgentError):
    """An agent did not answer within the deadline."""


class AgentBusyError(AgentTimeoutError):
    """An agent has no thread, or no room for a request, beside all others. The call may be repeated."""


class MessageTooLongError(AgentError):
    """A request to an agent is longer than a message may be. It was not sent; the message has both sizes."""


class AgentUnavailableError(AgentError):
    """No process listens at the address of the agent."""


class VerbsError(AgentError):
    """An RDMA operation failed. The message has the status of its completion."""


class RemoteAccessError(VerbsError):
    """The RDMA device of the agent's host refused an access: wrong key, out of range, or not allowed."""


class UnauthenticatedError(AgentError):
    """An agent and its client did not prove to each other that they know the token of the query."""


class ForbiddenError(AgentError):
    """The token of the query does not allow this call to an agent."""


class InvalidRequestError(AgentError):
    """A call to an agent is malformed, out of bounds, or contradicts the state that the agent holds."""


def class_of(name: str) -> type[SlashError] | None:
    """The error of this name, as another process has reported it; None: there is none."""
    found = globals().get(name)
    return found if isinstance(found, type) and issubclass(found, SlashError) else None
