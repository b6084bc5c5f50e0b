"""The native core. Every call that works releases the GIL; the objects may be shared by threads.

Times are microseconds since 1970-01-01, query and incarnation are 16 bytes, offsets and lengths are bytes. A hash
prefix is the upper 32 bits of a key's hash. Errors are of `pyslash.errors`.
"""

from collections.abc import Sequence
from typing import Protocol

from typing_extensions import Buffer, CapsuleType

from pyslash.units import ArenaOffset, Epoch

class _ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

class Plan:
    """What a query computes; docs/block-format.md has the grammar of its text."""

    def __init__(self, text: str) -> None:
        """Raises InvalidPlanError, which says which line is wrong and why."""

    @property
    def text(self) -> str: ...
    @property
    def fingerprint(self) -> int: ...
    @property
    def pane_us(self) -> int:
        """Width of a pane."""

    @property
    def deduplicates(self) -> bool: ...
    @property
    def row_bits(self) -> int | None:
        """Of a plan of rows, the bits that tell its buckets."""

    @property
    def states(self) -> list[tuple[str, list[int], int]]:
        """The states that groups keep: kind, input columns, and how many buffers of a segment they take."""

    @property
    def needs(self) -> list[list[int]]:
        """The states that each aggregate reads, but for the number of rows: places in `states`."""

    def nothing_seen(self, state: int, groups: int) -> list[bytes]:
        """The buffers of a state for groups that have seen no row."""

    @property
    def schema(self) -> Schema:
        """Columns of the result: window_start, window_end, key0 ..., agg0 ..."""

class Schema:
    """Columns of a result, for `pyarrow.schema()` and the like."""

    def __arrow_c_schema__(self) -> CapsuleType: ...

class RecordBatch:
    """Rows of a result, for `pyarrow.record_batch()` and the like. Their buffers are shared, not copied."""

    @property
    def num_rows(self) -> int: ...
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> CapsuleType: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[CapsuleType, CapsuleType]: ...

class Arena:
    """The memory that holds an executor's blocks, shared by all processes of a host."""

    @staticmethod
    def create(fd: int, size: int, incarnation: bytes) -> Arena:
        """Size a fresh memfd to `size` bytes and lay out an empty arena. The descriptor stays the caller's."""

    @staticmethod
    def attach(fd: int, incarnation: bytes) -> Arena:
        """Map an arena that another process created. StaleIncarnationError if the file is not that arena."""

    @property
    def size(self) -> int:
        """Of the whole file."""

    @property
    def capacity(self) -> int:
        """Of the part that blocks may fill."""

    @property
    def incarnation(self) -> bytes: ...
    @property
    def used_bytes(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def view(self, offset: int, length: int) -> memoryview:
        """Read-only; stays valid after `close`. InvalidInputError if it leaves the arena."""

    def allocate(self, length: int, query: bytes, epoch: Epoch) -> ArenaOffset:
        """Offset of fresh bytes (contents undefined) that this process owns until it publishes them. ArenaFullError."""

    def publish(self, offset: ArenaOffset) -> None:
        """What was allocated is a complete block.

        InvalidInputError, and it is freed, if its epoch was committed without it.
        """

    def commit(self, query: bytes, epoch: Epoch, offsets: Sequence[ArenaOffset]) -> int:
        """Commit the published blocks; drop the query's other uncommitted ones up to the epoch; how many were dropped.

        A block that is still being written is dropped when its writer publishes it, which fails, or dies.
        InvalidInputError, and nothing has changed, if an offset is no published block of the query.
        """

    def free(self, offset: ArenaOffset) -> None: ...
    def reclaim_dead(self) -> int:
        """Free what dead processes never published; how many blocks."""

    def blocks(self) -> list[tuple[ArenaOffset, int, int, int, bytes, Epoch]]:
        """(offset, length, state, owner pid, query, epoch) of each block, by offset.

        States: 1 allocated, 2 published, 3 committed, 4 allocated but its epoch was committed without it.
        """

    def close(self) -> None:
        """Let go of the memory, once no view is left. May be repeated; other calls raise InvalidInputError then."""

class Accumulator:
    """Rows in, partial states of (pane, key) groups held."""

    def __init__(self, plan: Plan, watermark_us: int, epoch: Epoch = ..., partition: int = 0) -> None:
        """`epoch` and `partition` say where the rows stand among all others, for `first` and `last`."""

    def add(self, rows: _ArrowArray) -> None:
        """Add a record batch or struct array: the event time, then the plan's columns. InvalidInputError."""

    def add_block(self, head: Head, offset: int, buffer: Buffer) -> None:
        """Add the rows of those segments of a block of rows that `buffer` holds whole; it starts `offset` bytes in.

        CorruptBlockError if one fails its checks, InvalidPlanError if they are not rows of this plan.
        """

    def seal(self, arena: Arena, query: bytes, epoch: Epoch, attempt: int) -> bytes:
        """Write the groups into the arena as a published block and return its head, the receipt. ArenaFullError."""

    @property
    def rows(self) -> int: ...
    @property
    def late_rows(self) -> int: ...
    @property
    def max_event_time(self) -> int:
        """-2**63 if no row had a time."""

    @property
    def groups(self) -> int:
        """(pane, key) pairs."""

class Head:
    """What a block is and where its segments are."""

    def __init__(self, buffer: Buffer) -> None:
        """Read the head at the start of `buffer`: a receipt, or a block. CorruptBlockError."""

    @property
    def fingerprint(self) -> int: ...
    @property
    def query(self) -> bytes: ...
    @property
    def incarnation(self) -> bytes: ...
    @property
    def epoch(self) -> Epoch: ...
    @property
    def attempt(self) -> int: ...
    @property
    def arena_offset(self) -> ArenaOffset: ...
    @property
    def length(self) -> int:
        """Of the whole block; 0 if there was nothing to write."""

    @property
    def head_length(self) -> int: ...
    @property
    def groups(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def late_rows(self) -> int: ...
    @property
    def max_event_time(self) -> int:
        """-2**63 if no row had a time."""

    @property
    def plan_text(self) -> str: ...
    @property
    def panes(self) -> list[tuple[int, int, int]]:
        """(pane start, groups, bytes) of each pane, ascending."""

    @property
    def prefix_ranges(self) -> int:
        """Into so many ranges of hash prefixes, of one width, its finest segments cut all keys."""

    def ranges(self, pane_lo: int, pane_hi: int, prefix_lo: int, prefix_hi: int) -> list[tuple[int, int]]:
        """(offset, length) within the block of what a reader of these panes and prefixes must fetch, ascending."""

class Merger:
    """Partial groups of many blocks into rows of windows. Consumes nothing."""

    def __init__(
        self,
        plan: Plan,
        window_starts: Sequence[int],
        prefix_lo: int = 0,
        prefix_hi: int = 4294967296,
        changed_in: int | None = None,
    ) -> None:
        """Every group of these windows, or only those that a block of the epoch `changed_in` has rows of.

        InvalidInputError if a start is not one of the plan's windows'.
        """

    def add(self, head: bytes | Head, offset: int, buffer: Buffer) -> None:
        """Add the segments of a block that `buffer`, which starts `offset` bytes into the block, holds whole.

        The buffer is kept and must not change. CorruptBlockError if a CRC is wrong (nothing has been added then),
        InvalidPlanError if the block was made by another plan.
        """

    def next(self, max_rows: int = 65536) -> RecordBatch | None:
        """The next rows, or None at the end. ArithmeticOverflowError under ANSI rules."""

class SessionMerger:
    """Parts of sessions out of many blocks, put together: those of a pane that ended after `evicted_us`, and by
    `closing_us`.
    """

    def __init__(
        self,
        plan: Plan,
        pane: int,
        evicted_us: int,
        closing_us: int,
        prefix_lo: int = 0,
        prefix_hi: int = 4294967296,
    ) -> None:
        """InvalidPlanError if the plan is none of sessions."""

    def add(self, head: bytes | Head, offset: int, buffer: Buffer) -> None:
        """Take the segments of a block that `buffer`, which starts `offset` bytes into the block, holds whole.

        CorruptBlockError if one fails its checks, InvalidPlanError if the block was made by another plan.
        """

    def next(self, max_rows: int = 65536) -> RecordBatch | None:
        """The next rows, or None at the end. ArithmeticOverflowError under ANSI rules."""

    def seal(self, arena: Arena, query: bytes, epoch: Epoch, attempt: int) -> bytes:
        """Write the sessions into the plan's place, as a published block, and return its head. ArenaFullError."""

class KeyIndex:
    """Rows of a table by their keys, which differ: what a join looks its rows up in. A null equals a null."""

    def __init__(self, plan: Plan) -> None: ...
    def add(self, rows: _ArrowArray) -> None:
        """The next rows, a record batch: the event time, then the plan's columns. InvalidInputError if a key recurs."""

    def find(self, rows: _ArrowArray, found: Buffer) -> None:
        """Into `found`, an int32 a row: the number of the table's row, as added, that has its key, or -1."""

def compact(
    plan: Plan,
    arena: Arena,
    offsets: Sequence[ArenaOffset],
    first_live_pane_us: int,
    query: bytes,
    epoch: Epoch,
    share: int = 0,
    shares: int = 1,
) -> bytes:
    """Fold blocks into a new published one without the panes before `first_live_pane_us`; they stay as they are.

    Of the keys it takes a share: of `shares` equal ranges of hash prefixes, a power of two, the one of this number. The
    rows that blocks count are those of share 0. Returns its head, empty if no group is left. CorruptBlockError,
    InvalidInputError, InvalidPlanError, ArenaFullError.
    """

def crc32c(data: Buffer, crc: int = 0) -> int:
    """CRC32C (Castagnoli) of a bytes-like object, after what has the CRC `crc`."""
