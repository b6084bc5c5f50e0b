"""Which of a query's inputs holds its watermark back, and for how long it has."""

from __future__ import annotations

from dataclasses import dataclass

from pyslash.spark.execution import InputWatermark, SparkBatch

_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


@dataclass(frozen=True)
class Held:
    """`held_by`: the sources of the input that the query's watermark is of, empty where there is only one; `held_ms`:
    how long this input's own watermark has not risen.
    """

    held_by: str = ""
    held_ms: int = 0


class HeldWatermark:
    """Looks at each micro-batch of a run. A query with one watermark is asked once: each time would cost a call."""

    def __init__(self) -> None:
        self._is_one = False
        self._since: dict[int, tuple[int, float]] = {}  # of each input: its watermark, and when it was first seen

    def look(self, batch: SparkBatch, now: float) -> Held:
        """As the micro-batch has begun; `now` in seconds."""
        inputs = [] if self._is_one else batch.input_watermarks()
        self._is_one = len(inputs) < 2
        return Held() if self._is_one else self.of(inputs, str(batch.session.conf.get(_POLICY)), now)

    def of(self, inputs: list[InputWatermark], policy: str, now: float) -> Held:
        """The same of these watermarks, in the order of the plan, out of which Spark takes the `min` or `max`."""
        for place, one in enumerate(inputs):
            if self._since.get(place, (None, 0.0))[0] != one.millis:
                self._since[place] = one.millis, now
        choose = max if policy.lower() == "max" else min
        place = choose(range(len(inputs)), key=lambda place: inputs[place].millis)
        return Held(inputs[place].source, round((now - self._since[place][1]) * 1000))
