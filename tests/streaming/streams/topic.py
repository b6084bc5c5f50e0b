"""Topics of a broker for random streams."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession

_SECONDS = 30


class Topic:
    """A new topic with so many partitions."""

    def __init__(self, servers: str, partitions: int) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient, NewTopic

        client = {"bootstrap.servers": servers, "log_level": 0}
        self._servers, self.name = servers, uuid.uuid4().hex
        admin = AdminClient(client)  # topics are made for as long as there is one
        admin.create_topics([NewTopic(self.name, partitions)])[self.name].result(_SECONDS)
        self._producer = Producer({**client, "enable.idempotence": True})

    def send(self, partition: int, values: Iterable[bytes]) -> None:
        """Hand them over; `flush` waits until the broker has them."""
        for value in values:
            self._producer.produce(self.name, value, partition=partition)

    def flush(self) -> None:
        """Return when the broker has all of them."""
        left = self._producer.flush(_SECONDS)
        assert left == 0, f"the broker has not taken {left} messages"

    def read(self, spark: SparkSession, most: int) -> DataFrame:
        """A stream of all of it, in micro-batches of so many messages."""
        options = {"subscribe": self.name, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(most)}
        return spark.readStream.format("kafka").options(**{"kafka.bootstrap.servers": self._servers}, **options).load()
