"""Topics of a broker, without Spark: orders go in, the messages of the examples come out."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from eval.pipelines.orders import Order
from eval.pipelines.replay import Row

if TYPE_CHECKING:
    from confluent_kafka import Message

PARTITIONS = 2
_SECONDS = 30


class TopicError(Exception):
    """The broker has not taken a message, or not given one."""


def create(address: str, *topics: str, settings: Mapping[str, str] | None = None, partitions: int = PARTITIONS) -> None:
    """New topics of so many partitions, with settings of the broker's; returns when they can be read.

    Raises:
        TopicError: the broker does not make them.
    """
    from confluent_kafka.admin import AdminClient, NewTopic

    client = AdminClient(_client(address))  # the topics are made for as long as there is one
    made = client.create_topics([NewTopic(name, partitions, config=dict(settings or {})) for name in topics])
    for future in made.values():
        future.result(_SECONDS)
    _wait_for_leaders(address, topics, partitions)


def _wait_for_leaders(address: str, topics: Iterable[str], partitions: int) -> None:
    """A topic that is made has no leaders for a moment, and who asks for its offsets then gets an error."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer, deadline = Consumer({**_client(address), "group.id": uuid.uuid4().hex}), time.monotonic() + _SECONDS
    waiting = [TopicPartition(name, part) for name in topics for part in range(partitions)]
    while waiting:
        try:
            consumer.get_watermark_offsets(waiting[-1], _SECONDS)
            waiting.pop()
        except KafkaException as error:
            if time.monotonic() > deadline:
                raise TopicError(f"{waiting[-1].topic} has no leader after {_SECONDS} s: {error}") from error
            time.sleep(0.05)  # polling another process, up to the deadline
    consumer.close()


def partitions(orders: Iterable[Order]) -> Sequence[Sequence[Order]]:
    """The orders of each partition, as `Orders` sends them there."""
    parts: list[list[Order]] = [[] for _ in range(PARTITIONS)]
    for order in orders:
        parts[order.number % PARTITIONS].append(order)
    return parts


class Orders:
    """Sends orders to a topic, each once and in sequence."""

    def __init__(self, address: str, topic: str) -> None:
        from confluent_kafka import Producer

        self._topic = topic
        self._producer = Producer({**_client(address), "enable.idempotence": True, "linger.ms": 20})
        self._errors: list[str] = []

    def send(self, orders: Iterable[Order]) -> None:
        """Hand them over; `flush` waits until the broker has them."""
        for order in orders:
            self._producer.produce(
                self._topic, order.message, partition=order.number % PARTITIONS, on_delivery=self._delivered
            )
            self._producer.poll(0)

    def flush(self) -> None:
        """Return when the broker has all of them.

        Raises:
            TopicError: it has not.
        """
        left = self._producer.flush(_SECONDS)
        if left or self._errors:
            raise TopicError(f"the broker has not taken {left} orders: {self._errors[:3]}")

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self._errors.append(str(error))


class Messages:
    """Reads a topic from its beginning."""

    def __init__(self, address: str, topic: str) -> None:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        self._parts = [TopicPartition(topic, part, OFFSET_BEGINNING) for part in range(PARTITIONS)]
        self._consumer = Consumer({**_client(address), "group.id": uuid.uuid4().hex, "enable.auto.commit": False})
        self._consumer.assign(self._parts)
        self._next = [0] * PARTITIONS

    def read(self) -> Iterator[Message]:
        """Each message that has not been read, up to the end of the topic as of now.

        Raises:
            TopicError: the broker does not give them.
        """
        ends = self._ends()
        while any(at < end for at, end in zip(self._next, ends, strict=True)):
            for message in self._consumer.consume(10_000, 1):
                if message.error():
                    raise TopicError(str(message.error()))
                self._next[message.partition()] = message.offset() + 1
                yield message

    def end(self) -> int:
        """How many messages there are."""
        return sum(self._ends())

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()

    def _ends(self) -> list[int]:
        return [self._consumer.get_watermark_offsets(part, _SECONDS)[1] for part in self._parts]


class Revenue(Messages):
    """Reads a topic that `examples/kafka_to_kafka.py` writes to."""

    def __init__(self, address: str, topic: str) -> None:
        super().__init__(address, topic)
        self._rows: list[Row] = []

    def rows(self) -> list[Row]:
        """Of all messages up to the end of the topic, as of now, in their sequence."""
        self._rows += (_row(message.key(), message.value()) for message in self.read())
        return self._rows


def _client(address: str) -> dict[str, object]:
    """What fails is raised here; what a client prints when a broker ends is of no use."""
    return {"bootstrap.servers": address, "log_level": 0}


def _row(key: bytes, value: bytes) -> Row:
    group, total = json.loads(key), json.loads(value)
    start = datetime.fromisoformat(group["window_start"])
    return round(start.timestamp() * 1000), group["shop"], total["orders"], total["cents"]
