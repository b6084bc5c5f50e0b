"""The Yahoo streaming benchmark: views of advertisements counted by campaign, every ten seconds.

Its events in their binary form, 78 bytes: user_id 16, page_id 16, ad_id 16, ad_type 9, event_type 9, event_time 8,
ip_address 4. A third of them are views; each belongs, by its ad, to one of 10,000 campaigns of ten ads each.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eval.workloads.base import Workload, timestamps
from eval.workloads.query import Aggregation, Join, Query

AD_TYPES = ("banner", "modal", "sponsored", "mail", "mobile")
EVENT_TYPES = ("view", "click", "purchase")
ADS_PER_CAMPAIGN = 10


@dataclass(frozen=True)
class Ysb(Workload):
    """`campaigns` campaigns of ten ads; every ad equally likely."""

    name: ClassVar[str] = "ysb"
    event_time: ClassVar[str] = "event_time"

    campaigns: int = 10_000

    def table(self, generator: np.random.Generator, event_time: np.ndarray) -> pa.Table:
        """The seven fields of an event; identifiers as 16 bytes of binary."""
        size = len(event_time)
        ad = generator.integers(0, self.campaigns * ADS_PER_CAMPAIGN, size)
        return pa.table(
            {
                "user_id": _random_ids(generator, size),
                "page_id": _random_ids(generator, size),
                "ad_id": _ids(self._ads()[ad]),
                "ad_type": _choose(generator, AD_TYPES, size),
                "event_type": _choose(generator, EVENT_TYPES, size),
                "event_time": timestamps(event_time),
                "ip_address": pa.array(generator.integers(-(2**31), 2**31, size, dtype=np.int32)),
            }
        )

    def write_extras(self, folder: Path) -> None:
        """Write `ads.parquet`: ad_id -> campaign_id."""
        campaigns = np.random.default_rng([self.seed, 1 << 32]).bytes(16 * self.campaigns)
        owner = np.repeat(np.frombuffer(campaigns, dtype="V16"), ADS_PER_CAMPAIGN)
        pq.write_table(pa.table({"ad_id": _ids(self._ads()), "campaign_id": _ids(owner)}), folder / "ads.parquet")

    @property
    def statement(self) -> Query:
        """Views by campaign, 10 s tumbling."""
        return Query(
            time="event_time",
            where="event_type = 'view'",
            join=Join("ads", "ad_id"),
            keys=("campaign_id",),
            aggregations=(Aggregation("views", "count", "*"),),
        )

    def _ads(self) -> np.ndarray:
        ads = np.random.default_rng([self.seed, 1 << 33]).bytes(16 * self.campaigns * ADS_PER_CAMPAIGN)
        return np.frombuffer(ads, dtype="V16")


def _ids(values: np.ndarray) -> pa.Array:
    return _binary(np.ascontiguousarray(values).tobytes(), len(values))


def _random_ids(generator: np.random.Generator, size: int) -> pa.Array:
    return _binary(generator.bytes(16 * size), size)


def _binary(data: bytes, size: int) -> pa.Array:
    """Not of fixed size in the files, which Flink does not read."""
    return pa.Array.from_buffers(pa.binary(16), size, [None, pa.py_buffer(data)]).cast(pa.binary())


def _choose(generator: np.random.Generator, names: tuple[str, ...], size: int) -> pa.Array:
    codes = pa.array(generator.integers(0, len(names), size, dtype=np.int8))
    return pa.DictionaryArray.from_arrays(codes, pa.array(names))
