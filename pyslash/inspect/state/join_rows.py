"""The rows that a join keeps of one of its sides, as a table: as in Spark, those that the watermark has not evicted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.types import StructType

from pyslash._native import crc32c
from pyslash.errors import CorruptBlockError, InvalidInputError, StateLostError
from pyslash.inspect.state import unsafe_rows
from pyslash.state.files.block_file import StoredBlock
from pyslash.state.manifest import Manifest
from pyslash.state.sizes.segment_columns import SegmentColumns

SIDES = ("left", "right")
# Behind the columns of the side: the watermark that evicts a row, null if none does, and the micro-batch it came with.
_EXPIRES = pa.field("_slash_expires", pa.timestamp("us", "UTC"))
_EPOCH = pa.field("_slash_epoch", pa.int64())
# From this watermark on, the last day of the year 9999, nothing is evicted.
_END_OF_TIME = 253_402_214_400_000_000


def schema(manifest: Manifest, side: str | None) -> pa.Schema:
    """Of the batches that `rows` yields.

    Raises:
        InvalidInputError: no side is chosen, or its rows cannot be read.
        StateLostError: the manifest is not what was written.
    """
    return _with_times(_row_schema(manifest, side))


def rows(
    manifest: Manifest, blocks: Iterable[StoredBlock], side: str | None, share: tuple[int, int]
) -> Iterator[pa.RecordBatch]:
    """The rows of one side, left or right, a batch for each segment.

    `share`: only of segments from so many 2^32ths of all of them on, and before so many.

    Raises:
        CorruptBlockError: a segment, or a row in it, is damaged.
        InvalidInputError, StateLostError: as `schema`.
    """
    kind, columns = _row_schema(manifest, side), SegmentColumns(manifest.identity)
    made = _with_times(kind)
    segments = [one for block in blocks for one in block.segments]
    first, end = (-(-bound * len(segments) >> 32) for bound in share)
    for segment, data in segments[first:end]:
        if crc32c(data) != segment.crc:
            raise CorruptBlockError(f"the CRC32C of the segment at {segment.offset} does not match")
        kept = columns.kept_rows(segment, data)
        wanted = kept.where((kept.side == SIDES.index(str(side))) & (kept.expires > manifest.watermark_us))
        evicting = pa.array(wanted.expires, _EXPIRES.type, mask=wanted.expires >= _END_OF_TIME)
        fields = unsafe_rows.columns(wanted.data, wanted.starts, wanted.sizes, kind)
        yield pa.record_batch([*fields, evicting, pa.array(wanted.epoch)], made)


def _with_times(rows: StructType) -> pa.Schema:
    return pa.schema([*unsafe_rows.arrow_schema(rows), _EXPIRES, _EPOCH])


def _row_schema(manifest: Manifest, side: str | None) -> StructType:
    if side not in SIDES:
        raise InvalidInputError(
            "the state of a join is rows of two sides: choose one, with --side left or --side right, or with "
            "option('joinSide', 'left') or 'right' of slash-state"
        )
    if len(manifest.row_schemas) != len(SIDES):
        raise InvalidInputError(
            f"the manifest of epoch {manifest.epoch} does not say which columns the rows of the join have: an earlier "
            "version of pyslash has written it. Those of later micro-batches do"
        )
    try:
        return StructType.fromJson(json.loads(manifest.row_schemas[SIDES.index(side)]))
    except Exception as error:  # PySpark's are of many classes
        raise StateLostError(
            f"the manifest of epoch {manifest.epoch} has columns of a join's rows that PySpark does not know: {error}"
        ) from error
