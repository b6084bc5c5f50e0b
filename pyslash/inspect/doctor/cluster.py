"""What executors answered, judged: versions, memory, what may be locked, RDMA, clocks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pyslash.inspect.doctor.executors import Answer
from pyslash.inspect.doctor.finding import Finding, Status
from pyslash.inspect.doctor.memory import LOCKED_FIX
from pyslash.inspect.doctor.software import CRC_CHECK

SKEW_SECONDS = 0.5
_GIB = 1 << 30
_PYTHON_FIX = (
    "set spark.pyspark.python to the environment with pyslash as it is on every host (standalone), or ship one: "
    "spark-conf/yarn.conf, spark-conf/kubernetes"
)


@dataclass(frozen=True)
class Driver:
    """What executors are compared with: the driver's versions, and what they were given."""

    python: str
    pyslash: str
    arena_bytes: int


def judge(driver: Driver, answers: Sequence[Answer], rdma_required: bool = False) -> list[Finding]:
    """All findings of a cluster; a check that nobody fails is one line."""
    return [
        *_summed(
            "executor python", answers, lambda answer: _python(driver, answer), f"{driver.python}, as the driver's"
        ),
        *_summed(
            "pyslash", answers, lambda answer: _package(driver, answer), f"{driver.pyslash}, and its native module"
        ),
        *_memory(driver, answers),
        *_locked(driver, answers, rdma_required),
        *_rdma(answers, rdma_required),
        *_clocks(answers),
    ]


def table(answers: Sequence[Answer]) -> Iterator[str]:
    """A line an executor, below a line of names."""
    yield _row("executor", "host", "python", "pyslash", "memory", "locked", "rdma", "clock")
    for answer in answers:
        facts = answer.facts
        locked = facts.get("locked_bytes", 0)
        yield _row(
            answer.executor.id,
            answer.executor.host,
            facts.get("python", "none"),
            facts.get("pyslash", "none"),
            f"{facts['memory_bytes'] / _GIB:.1f}g" if facts else "?",
            "?" if not facts else "unlimited" if locked is None else f"{locked >> 10}k",
            ",".join(facts.get("rdma_ports", ())) or "none",
            f"{answer.skew_seconds:+.1f}s" if answer.skew_seconds else "ok",
        )


def _row(*cells: str) -> str:
    return "  ".join(f"{cell:{width}}" for cell, width in zip(cells, (8, 20, 8, 8, 8, 10, 12, 6), strict=True)).rstrip()


def _named(answer: Answer) -> str:
    return f"executor {answer.executor.id} on {answer.executor.host}"


def _summed(
    check: str, answers: Sequence[Answer], wrong: Callable[[Answer], str | None], well: str
) -> Iterator[Finding]:
    """A failure for each executor of which something is `wrong`, and one line for all others."""
    reasons = [(answer, wrong(answer)) for answer in answers]
    bad = [Finding(check, Status.FAILURE, f"{_named(answer)}: {why}", _PYTHON_FIX) for answer, why in reasons if why]
    yield from bad
    if len(bad) < len(answers):
        yield Finding(check, Status.OK, f"{well}: {len(answers) - len(bad)} of {len(answers)} executors")


def _python(driver: Driver, answer: Answer) -> str | None:
    if not answer.facts:
        return answer.error
    if answer.facts["python"].split(".")[:2] != driver.python.split(".")[:2]:
        return f"{answer.facts['executable']} is Python {answer.facts['python']}, the driver's is {driver.python}"
    return None


def _package(driver: Driver, answer: Answer) -> str | None:
    if not answer.facts:
        return "no Python that could be asked"
    if answer.error:
        return f"{answer.facts['executable']}: {answer.error}"
    if answer.facts["pyslash"] != driver.pyslash:
        return f"it is {answer.facts['pyslash']} there, {driver.pyslash} in the driver"
    if answer.facts["crc"] != CRC_CHECK:
        return f"{answer.facts['executable']}: the CRC32C of its native module is wrong"
    return None


def _memory(driver: Driver, answers: Sequence[Answer]) -> Iterator[Finding]:
    """The arenas of a host's executors against its memory, or their container's."""
    hosts: dict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        if answer.facts:
            hosts[answer.facts["host"]].append(answer)
    fitting = 0
    for host, there in hosts.items():
        room = min(answer.facts["memory_bytes"] for answer in there)
        arenas = len(there) * driver.arena_bytes
        if arenas <= room // 2:
            fitting += 1
            continue
        status = Status.FAILURE if arenas > room else Status.WARNING
        found = f"{host}: {len(there)} arenas take {arenas / _GIB:.1f} GiB of the {room / _GIB:.1f} GiB that it has"
        yield Finding("arenas", status, found, "set a smaller spark.slash.arena.size, or start fewer executors a host")
    if fitting:
        yield Finding("arenas", Status.OK, f"{driver.arena_bytes / _GIB:.1f} GiB an executor fit on {fitting} hosts")


def _locked(driver: Driver, answers: Sequence[Answer], required: bool) -> Iterator[Finding]:
    """Verbs pin the arena, so a limit counts where there is a device, or where one has to be."""
    heard = [answer for answer in answers if answer.facts]
    concerned = [answer for answer in heard if required or answer.facts["rdma_ports"]]
    enough = 0
    for answer in concerned:
        limit = answer.facts["locked_bytes"]
        if limit is None or limit >= driver.arena_bytes:
            enough += 1
        else:
            found = f"{_named(answer)}: at most {limit} bytes, less than an arena of {driver.arena_bytes} bytes"
            yield Finding("locked memory", Status.FAILURE, found, LOCKED_FIX)
    if enough:
        yield Finding("locked memory", Status.OK, f"{enough} of {len(heard)} executors may pin an arena")
    if heard and not concerned:
        yield Finding("locked memory", Status.OK, "nothing is pinned, because no executor has an RDMA port")


def _rdma(answers: Sequence[Answer], required: bool) -> Iterator[Finding]:
    heard = [answer for answer in answers if answer.facts]
    without = [answer for answer in heard if not answer.facts["rdma_ports"]]
    if heard and not without:
        yield Finding("rdma", Status.OK, f"each of {len(heard)} executors has an active port")
    elif without:
        status = Status.FAILURE if required else Status.ABSENT if len(without) == len(heard) else Status.WARNING
        who = "no executor" if len(without) == len(heard) else f"{len(heard) - len(without)} of {len(heard)} executors"
        fix = "run `pyslash doctor --rdma` on the hosts without one: " + ", ".join(
            sorted({answer.executor.host for answer in without})[:10]
        )
        yield Finding("rdma", status, f"{who} with an active port", "" if status is Status.ABSENT else fix)


def _clocks(answers: Sequence[Answer]) -> Iterator[Finding]:
    """Clocks that differ by more than the time that asking them took."""
    off = [answer for answer in answers if abs(answer.skew_seconds) >= SKEW_SECONDS]
    for answer in off:
        way = "ahead of" if answer.skew_seconds > 0 else "behind"
        found = f"{_named(answer)} is at least {abs(answer.skew_seconds):.1f} s {way} the driver's host"
        yield Finding(
            "clock", Status.WARNING, found, "let chrony or ntpd set the clocks: logs and epochs' times differ"
        )
    if len(off) < len(answers):
        yield Finding(
            "clock", Status.OK, f"{len(answers) - len(off)} of {len(answers)} executors agree with the driver"
        )
