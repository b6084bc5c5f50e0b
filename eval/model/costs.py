"""The model: what an epoch costs on N nodes, by phase, for late merge, less and more of it, and repartitioning.

All phases follow one another. Keys are equally likely (skew makes fewer groups, so late merge does no worse), a node
has one card, tasks are as many as cores, and nothing fails. c: cores of a node, N: nodes, K: keys.

    late merge       update and seal at each task | a node folds its c blocks | merge tasks read N nodes
    unfolded         ... | merge tasks read their share of N c blocks
    tree             as late merge, racks of about sqrt(N) nodes first, each node a share | then sqrt(N) racks
    repartition      every row goes to the task that owns its key | which aggregates it
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from eval.model.inputs import Link, Load, Nodes, Rates
from pyslash.agent.compaction.epoch_folding import shares_on
from pyslash.conf import Conf
from pyslash.emit.merging import merge_tasks

# Of a segment: a merge task reads whole ones. The rule is that of `segments_of` in native/core/src/block/seal.cpp.
_SEGMENT, _MAX_BITS = 8192, 12
_SMALLEST_SEGMENT, _SHARED_BITS = 128, 6
AGENTS_AT_ONCE = 32  # calls of the driver to agents
AGENT_CALL_S = 0.3e-3  # over the Unix socket
_CONF = Conf.read(lambda key, default: default)
_HEAD_BYTES = 192 + 128  # header and plan
_ENTRY_BYTES = 48


@dataclass(frozen=True)
class Epoch:
    """Seconds of each phase, and what limits are held against.

    `queue_pairs`: of a card. `reads`: calls of one merging task. `bytes`: into a card. `closure_bytes`: heads that each
    merging task is sent. `useful`: of the groups that merging tasks read, the share that they keep.
    """

    update: float
    exchange: float
    merge: float
    heads: float
    driver: float
    queue_pairs: int
    reads: float
    bytes: float
    closure_bytes: float
    useful: float = 1.0

    @property
    def phases(self) -> dict[str, float]:
        """Seconds by name."""
        return {name: getattr(self, name) for name in ("update", "exchange", "merge", "heads", "driver")}

    @property
    def seconds(self) -> float:
        """From the epoch's first row to its last result."""
        return sum(self.phases.values())

    @property
    def largest(self) -> str:
        """The phase that takes most."""
        return max(self.phases, key=lambda name: self.phases[name])


def occupied(keys: float, rows: float) -> float:
    """Expected distinct keys among `rows` rows.

    >>> round(occupied(100, 1000)), round(occupied(1000000, 10))
    (100, 10)
    """
    return keys * -math.expm1(-rows / keys)


def late_merge(rates: Rates, link: Link, nodes: Nodes, load: Load) -> Epoch:
    """As pyslash does it: a node with many tasks folds their blocks, each core a share of the keys."""
    if nodes.cores <= _CONF.fold_blocks:
        return unfolded(rates, link, nodes, load)
    update, groups = _update(rates, nodes, load)
    fold, groups = _fold(rates, nodes.cores, nodes.cores, groups, load)
    made = Made(groups, nodes.count, shares_on(nodes.cores))
    return _last_merge(rates, link, nodes, load, update, fold, made, 2 * (nodes.count - 1))


def unfolded(rates: Rates, link: Link, nodes: Nodes, load: Load) -> Epoch:
    """With `spark.slash.fold.blocks=0`: merge tasks read the blocks of all tasks."""
    update, groups = _update(rates, nodes, load)
    made = Made(groups, nodes.count * nodes.cores, 1)
    return _last_merge(rates, link, nodes, load, update, 0.0, made, 2 * (nodes.count - 1))


def tree(rates: Rates, link: Link, nodes: Nodes, load: Load) -> Epoch:
    """As `late_merge`, and each rack merges its own nodes' state, a share a node, before racks meet."""
    rack = rack_of(nodes.count)
    racks = -(-nodes.count // rack)
    if racks == 1:
        return late_merge(rates, link, nodes, load)
    update, groups = _update(rates, nodes, load)
    fold, groups = _fold(rates, nodes.cores, nodes.cores, groups, load)
    queue_pairs = 2 * (rack - 1 + racks - 1)
    # A node reads its share, 1 / rack of the keys, of each node of the rack.
    into = groups * load.windows * rates.group_bytes * _remote(rack)
    exchanged = _exchange(link, into, queue_pairs, rack * rates.read_s, rack)
    merged, of_rack = _fold(rates, rack, nodes.cores, groups, load, share=rack)
    first = fold + merged + exchanged + rates.task_s * nodes.count
    made = Made(of_rack, racks, max(rack, shares_on(nodes.cores)))
    return _last_merge(rates, link, nodes, load, update, first, made, queue_pairs)


def repartition(rates: Rates, link: Link, nodes: Nodes, load: Load) -> Epoch:
    """UpPar: tasks scatter rows by owner, owners read and aggregate them, merge tasks emit what owners hold."""
    tasks = nodes.count * nodes.cores
    rows = load.rows / nodes.cores
    queue_pairs = 2 * nodes.cores * (nodes.count - 1)
    into = load.rows * rates.row_bytes * _remote(nodes.count)
    return Epoch(
        update=rows * (rates.ingest_s + rates.seconds(rates.partition)),
        exchange=_exchange(link, into, queue_pairs, tasks * rates.read_s, tasks),
        merge=rows * rates.seconds(rates.own),
        heads=tasks * rates.head_s,
        driver=_driver(rates, nodes, 3 * tasks, 2 * tasks),
        queue_pairs=queue_pairs,
        reads=tasks,
        bytes=into,
        closure_bytes=tasks * (_HEAD_BYTES + _ENTRY_BYTES * 4 * tasks),
    )


WAYS = {"late merge": late_merge, "unfolded": unfolded, "tree": tree, "repartition": repartition}


def rack_of(count: int) -> int:
    """Nodes of a rack: the power of two nearest above the root.

    >>> [rack_of(count) for count in (1, 2, 16, 1024)]
    [1, 2, 4, 32]
    """
    return 1 << math.ceil(math.log2(count) / 2) if count > 1 else 1


def limits(epoch: Epoch, link: Link) -> list[str]:
    """Which limits an epoch is past, and what happens then."""
    found = []
    if epoch.queue_pairs > link.queue_pairs:
        found.append(f"{epoch.queue_pairs:,} queue pairs a card, the device makes {link.queue_pairs:,}: tcp")
    elif epoch.queue_pairs > link.cached:
        found.append(f"{epoch.queue_pairs:,} queue pairs a card, {link.cached:,} at full rate")
    if epoch.useful < 0.5:
        found.append(f"merge tasks keep {epoch.useful:.0%} of the groups that they read")
    if epoch.driver > epoch.seconds / 2:
        found.append("the driver takes more than half of the epoch")
    if epoch.heads > epoch.seconds / 4:
        found.append(f"each task parses {epoch.closure_bytes / 1e6:,.0f} MB of heads")
    return found


def _update(rates: Rates, nodes: Nodes, load: Load) -> tuple[float, float]:
    """Seconds of an update task, and the groups of one window in its block."""
    rows = load.rows / nodes.cores
    # Of windows that stay open over several epochs, the blocks of the earlier ones are compacted: as if of one epoch.
    groups = occupied(load.keys, rows / load.windows)
    sealed = groups * max(1.0, load.windows)
    return rows * (rates.ingest_s + rates.seconds(rates.update)) + sealed * rates.seconds(rates.seal), groups


def _fold(rates: Rates, blocks: int, cores: int, groups: float, load: Load, share: int = 1) -> tuple[float, float]:
    """Seconds for a node to fold a share of that many blocks on its cores, and the groups of the result."""
    keys = load.keys
    # Groups of a union of parts that each hold the same share of the keys, independently.
    union = keys * -math.expm1(blocks * math.log1p(-min(groups / keys, 1 - 1e-12)))
    work = blocks * groups * rates.merge + union * rates.seal
    return rates.seconds(work) * load.windows / share / cores, union


@dataclass(frozen=True)
class Made:
    """What merge tasks read: `blocks` of each range of keys, with so many groups of a window in all of its ranges.

    A block has one of `shares` of the keys.
    """

    groups: float
    blocks: int
    shares: int

    @property
    def segments(self) -> float:
        """Ranges that a task can read without those beside it."""
        return max(float(self.shares), segments_of(self.groups))


def _last_merge(
    rates: Rates, link: Link, nodes: Nodes, load: Load, update: float, before: float, made: Made, queue_pairs: int
) -> Epoch:
    """By as many tasks as there are segments or bytes to read for; a node asks each other one once for all of them."""
    cores = nodes.count * nodes.cores
    groups, heads = made.groups * load.windows, made.blocks * made.shares
    held = int(made.blocks * groups * rates.group_bytes)
    tasks = merge_tasks(_CONF, cores, held, held, int(made.segments))
    read, useful = groups_read(groups, tasks, made.segments)
    into = bytes_into(nodes.count, tasks, made.blocks, read * rates.group_bytes)
    return Epoch(
        update=update,
        exchange=_exchange(link, into, queue_pairs, nodes.count * rates.read_s, nodes.count),
        merge=before + made.blocks * -(-tasks // cores) * merge_s(rates, read, useful),
        heads=heads * rates.head_s,
        driver=_driver(rates, nodes, cores + tasks, heads),
        queue_pairs=queue_pairs,
        reads=nodes.count,
        bytes=into,
        closure_bytes=heads * (_HEAD_BYTES + _ENTRY_BYTES * made.segments / made.shares * max(1.0, load.windows)),
        useful=useful,
    )


def _exchange(link: Link, into: float, queue_pairs: int, calls_s: float, reads: float) -> float:
    """READs of a task follow one another; tasks share the card's rate, which falls with connections past `cached`."""
    at_full_rate = min(1.0, link.cached / queue_pairs) if queue_pairs else 1.0
    rate = link.bytes_per_s * (at_full_rate + (1 - at_full_rate) * link.uncached)
    return into / rate + reads * link.latency_s + calls_s


def bytes_into(nodes: int, tasks: int, blocks: int, read: float) -> float:
    """A node's tasks read so many bytes of each block, most of them from other nodes."""
    return -(-tasks // nodes) * blocks * read * _remote(nodes)


def groups_read(groups: float, tasks: int, segments: float) -> tuple[float, float]:
    """Groups of a block that one task reads, and which share of them are its own: it reads whole segments."""
    wanted, read = groups / tasks, groups / min(tasks, segments)
    return read, wanted / read


def merge_s(rates: Rates, read: float, useful: float) -> float:
    """Seconds for a task's part of one block."""
    return rates.seconds(read * (useful * rates.merge + (1 - useful) * rates.skip))


def segments_of(groups: float) -> float:
    """Of a window in a block: a power of two."""
    narrow = math.ceil(math.log2(max(groups, 1) / _SEGMENT))
    shared = min(_SHARED_BITS, math.floor(math.log2(max(groups, 1) / _SMALLEST_SEGMENT)))
    return float(1 << max(0, min(_MAX_BITS, narrow), shared))


def _driver(rates: Rates, nodes: Nodes, tasks: int, receipts: int) -> float:
    calls = 0.0 if rates.epoch_s == 0 else -(-nodes.count // AGENTS_AT_ONCE) * AGENT_CALL_S
    return rates.epoch_s + tasks * rates.task_s + receipts * rates.head_s + calls


def _remote(places: int) -> float:
    """The share of evenly spread bytes that is not at home."""
    return (places - 1) / places
