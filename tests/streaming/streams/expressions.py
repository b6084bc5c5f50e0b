"""Draws the expressions of a query: its keys, its aggregates, and what stands above the operator."""

from __future__ import annotations

import random

from tests.streaming.streams.case import TABLES, Step
from tests.streaming.streams.vocabulary import (
    AGGREGATE_EXPRESSIONS,
    BITS,
    HUGE,
    KEY_EXPRESSIONS,
    LITERALS,
    MOMENTS,
    ORDERED,
    PREDICATES_OF_ROWS,
    SUMMABLE,
)


class Expressions:
    """Draws from a generator, over columns of these types."""

    def __init__(self, rng: random.Random, kinds: list[str]) -> None:
        self.rng, self.kinds = rng, kinds

    def often(self, share: float) -> bool:
        """True in this share of all draws."""
        return self.rng.random() < share

    def keys(self, joined: bool) -> tuple[tuple[str, ...], list[str], list[Step]]:
        """Key expressions, their types, and the columns that the rows have to be given for them."""
        keys: list[str] = []
        kinds: list[str] = []
        computed: list[Step] = []
        for _ in range(self.rng.choice((0, 1, 1, 1, 2, 3))):
            if joined and self.often(0.5):
                key, kind = self.rng.choice((("label", "string"), ("weight", "long")))
            elif self.often(0.25):
                key, kind = self.rng.choice(KEY_EXPRESSIONS)
            else:
                kind = self.rng.choice([name for name in self.kinds if name != "huge"])
                key = f"k_{kind}"
            if key in keys:
                continue
            if self.often(0.15):
                computed.append(("with", f"x{len(keys)}", key))
                key = f"x{len(keys)}"
            keys.append(key)
            kinds.append(kind)
        return tuple(keys), kinds, computed

    def aggregates(self) -> tuple[str, ...]:
        calls = [self._aggregate() for _ in range(self.rng.randint(1, 4))]
        if self.often(0.1):
            calls.append(HUGE)  # overflows: an error with ANSI, wraps without
        return tuple(dict.fromkeys(calls))

    def _aggregate(self) -> str:
        rng = self.rng
        kind = rng.random()
        around = "{}"
        if kind < 0.2:
            return rng.choice(AGGREGATE_EXPRESSIONS)
        if kind < 0.4:
            call = "count(*)"
        elif kind < 0.5:
            call = f"count(v_{rng.choice(self.kinds)})"
        elif kind < 0.65:
            call = f"{rng.choice(('sum', 'avg', 'try_avg'))}(v_{rng.choice(SUMMABLE)})"
        elif kind < 0.85:
            call, around = self._other_aggregate()
        else:
            call = f"{rng.choice(('min', 'max'))}(v_{rng.choice(self.kinds)})"
        if self.often(0.2):
            call += f" FILTER (WHERE {rng.choice(PREDICATES_OF_ROWS)})"
        return around.format(call)

    def _other_aggregate(self) -> tuple[str, str]:
        """A call, and what is made of its result."""
        rng = self.rng
        kind = rng.random()
        if kind < 0.15:
            return f"{rng.choice(('bit_and', 'bit_or', 'bit_xor'))}(v_{rng.choice(BITS)})", "{}"
        if kind < 0.25:
            return f"{rng.choice(('bool_and', 'bool_or', 'every', 'some'))}(v_boolean)", "{}"
        if kind < 0.45:
            ordering = rng.choice([kind for kind in ORDERED if kind in self.kinds])
            return f"{rng.choice(('max_by', 'min_by'))}(v_{ordering}, v_{ordering})", "{}"
        if kind < 0.55:
            return f"{rng.choice(('first', 'last', 'any_value'))}(v_{rng.choice(self.kinds)}, true)", "{} IS NULL"
        if kind < 0.65:
            return f"try_sum(v_{rng.choice(SUMMABLE)})", "{}"
        return f"{rng.choice(MOMENTS)}(v_{rng.choice(('byte', 'short'))})", "round({} + 0.00012345, 3)"

    def above(self, mode: str, windowed: bool, kinds: list[str], aggregates: tuple[str, ...]) -> tuple[Step, ...]:
        rng = self.rng
        steps: list[Step] = []
        if self.often(0.3):
            conditions = ["second(window.start) % 20 < 10", "window.end > window.start"] if windowed else ["1 > 0"]
            conditions += ["a0 IS NOT NULL"] if aggregates else []
            for i, kind in enumerate(kinds):
                conditions += [f"k{i} IS NOT NULL", f"k{i} IS NULL"]
                conditions += [f"k{i} = {value}" for value in LITERALS.get(kind, ())]
            conditions += [f"a{i} > 1" for i, call in enumerate(aggregates) if call == "count(*)"]
            steps.append(("where", rng.choice(conditions)))
        for i, kind in enumerate(kinds):
            if kind in TABLES and self.often(0.15):
                steps.append(("join", rng.choice(("inner", "left")), f"k{i}", kind))
                break
        if self.often(0.25):
            chosen = []
            if windowed:
                chosen += ["date_format(window.start, 'yyyy-MM-dd HH:mm:ss') AS starts", "window.end AS ends"]
            chosen += [f"k{i}" for i in range(len(kinds))]
            chosen += [f"a{i} AS result{i}" for i in range(len(aggregates))]
            chosen += ["current_timestamp() > TIMESTAMP'2001-01-01' AS now"]
            steps.append(("select", *rng.sample(chosen, rng.randint(1, len(chosen)))))
        if mode == "complete" and self.often(0.3):
            steps.append(("top", str(rng.choice((1, 5, 1000)))))
        return tuple(steps)


def depends_on_order(call: str) -> bool:
    """Whether its result depends on the order of rows."""
    return any(f"{name}(" in call for name in ("first", "last", "any_value"))
