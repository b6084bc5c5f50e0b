"""The name of `BlockPublisher` in `pyslash.operators.transform`."""

from pyslash.ingest.block_publisher import BlockPublisher as ArrowUpdate

__all__ = ["ArrowUpdate"]
