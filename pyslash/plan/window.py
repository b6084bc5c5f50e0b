"""Find the time window of an aggregation in an analysed plan, and the input plan without it.

Spark's analyser has already replaced `window(ts, ...)` by arithmetic when we see the plan: a `Project` that adds one
struct (tumbling) or an `Expand` that adds one struct for each overlapping window (sliding). The parameters are read
back from that arithmetic, and then *proven*: Spark is asked to analyse `window()` with those parameters over the same
input, and must give the same expressions. A release of Spark that writes the arithmetic in another way is therefore
not covered rather than misread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd

from pyslash.plan.catalyst import (
    WATERMARK_KEY,
    Catalyst,
    JavaObject,
    children,
    expr_id,
    items,
    name_of,
    references,
    walk,
)
from pyslash.plan.reasons import Uncovered


@dataclass(frozen=True)
class TimeWindow:
    """An event-time window, in microseconds, as Spark defines it: starts at `start_offset + k * slide`."""

    size_us: int
    slide_us: int
    start_offset_us: int

    @property
    def pane_us(self) -> int:
        """Width of a pane: the longest slice of event time that no window boundary cuts."""
        return gcd(self.size_us, self.slide_us)

    def starts_covering(self, pane: int) -> range:
        """Starts of the windows that contain the pane that begins at `pane`, ascending.

        >>> list(TimeWindow(10, 5, 0).starts_covering(12))
        [5, 10]
        """
        last = pane - (pane - self.start_offset_us) % self.slide_us
        first = last - ((last + self.size_us - 1 - pane) // self.slide_us) * self.slide_us
        return range(first, last + 1, self.slide_us)


@dataclass
class WindowedInput:
    """What lies under an aggregation: its window, and the input without the window's own columns."""

    window: TimeWindow
    time: JavaObject
    plan: JavaObject
    # Ids of the attributes that are the window struct itself (it may have been renamed on its way up).
    struct_ids: set[int] = field(default_factory=set)
    # Ids of attributes computed from the window (such as window.start): no longer available under the aggregation.
    derived_ids: set[int] = field(default_factory=set)


def windowed_input(catalyst: Catalyst, child: JavaObject) -> WindowedInput:
    """Read the window out of the plan under an aggregation.

    Args:
        catalyst: builder for the session.
        child: the aggregation's child, analysed.

    Raises:
        Uncovered: no window() there, or one that is not understood.
    """
    name = name_of(child)
    structs = _window_structs(child)
    if structs is not None:
        source = children(child)[0]
        struct_attribute, window, time = _read_window(catalyst, structs, source)
        return WindowedInput(window, time, source, {expr_id(struct_attribute)})
    if name == "Project":
        return _through_project(catalyst, child)
    if name in ("Filter", "SubqueryAlias", "View"):
        below = children(child)[0]
        inner = windowed_input(catalyst, below)
        if name == "Filter" and name_of(below) == "Expand" and references(child.condition()) & inner.struct_ids:
            # Spark's own: where the slide does not divide the size, Expand makes one window too many for some rows.
            return inner
        if name == "Filter" and references(child.condition()) & (inner.struct_ids | inner.derived_ids):
            raise Uncovered(
                "a filter between window() and the aggregation reads the window; put it above the aggregation"
            )
        if name == "Filter":
            inner.plan = catalyst.rebuild(child, [inner.plan])
        return inner
    raise Uncovered("there is no time window() among the grouping expressions")


def _through_project(catalyst: Catalyst, project: JavaObject) -> WindowedInput:
    inner = windowed_input(catalyst, children(project)[0])
    kept = []
    window_ids = inner.struct_ids | inner.derived_ids
    structs, derived = set(), set()
    for item in items(project.projectList()):
        if not references(item) & window_ids:
            kept.append(item)
        elif _is_plain(item) and references(item) <= inner.struct_ids:
            structs.add(expr_id(item))
        else:
            derived.add(expr_id(item))
    if not any(expr_id(item) == expr_id(inner.time) for item in kept):
        kept.append(inner.time)  # the update still needs the event time, even where the job has dropped it
    inner.plan = catalyst.project(kept, inner.plan)
    inner.struct_ids, inner.derived_ids = structs, derived
    return inner


def _is_plain(item: JavaObject) -> bool:
    return name_of(item) == "AttributeReference" or name_of(children(item)[0]) == "AttributeReference"


def _window_structs(node: JavaObject) -> tuple[JavaObject, list[JavaObject]] | None:
    """(window attribute, its struct expressions) where the node is the one that makes the windows, else None."""
    if name_of(node) == "Expand":
        first = [projection.apply(0) for projection in items(node.projections())]
        if all(_is_window_struct(struct) for struct in first):
            return node.output().apply(0), first
        raise Uncovered("grouping sets, cube and rollup are not covered")
    if name_of(node) == "Project":
        for item in items(node.projectList()):
            if name_of(item) == "Alias" and _is_window_struct(item.child()):
                return item, [item.child()]
    return None


def _is_window_struct(expression: JavaObject) -> bool:
    return name_of(expression) == "CreateNamedStruct" and any(
        name_of(node) == "PreciseTimestampConversion" for node in walk(expression)
    )


def _read_window(
    catalyst: Catalyst, found: tuple[JavaObject, list[JavaObject]], source: JavaObject
) -> tuple[JavaObject, TimeWindow, JavaObject]:
    attribute, structs = found
    if not any(name_of(node) == "Remainder" for node in walk(structs[0])):
        raise Uncovered("session windows are not covered yet")
    window = _parameters(structs[0])
    time = next(node for node in walk(structs[0]) if name_of(node) == "AttributeReference")
    if not time.metadata().contains(WATERMARK_KEY):
        raise Uncovered("the window's time column carries no watermark: call withWatermark() on it")
    expected = _analysed_structs(catalyst, window, time, source)
    same = len(expected) == len(structs) and all(a.semanticEquals(b) for a, b in zip(structs, expected, strict=True))
    if not same:
        raise Uncovered("the window() expression is not one that this version of pyslash understands")
    return attribute, window, time


def _parameters(struct: JavaObject) -> TimeWindow:
    """Size, slide and offset, from `(ts - offset) % slide` and `... + size` in the struct's arithmetic."""
    try:
        remainder = next(node for node in walk(struct) if name_of(node) == "Remainder")
        slide = int(remainder.right().value())
        offset = int(remainder.left().right().value())
        end = children(struct)[3]
        addition = next(node for node in walk(end) if name_of(node) == "Add")
        size = int(addition.right().value())
    except Exception as error:  # py4j raises for any member that is not there
        raise Uncovered("the window() expression is not one that this version of pyslash understands") from error
    return TimeWindow(size, slide, offset)


def _analysed_structs(catalyst: Catalyst, window: TimeWindow, time: JavaObject, source: JavaObject) -> list[JavaObject]:
    """The struct expressions that Spark itself makes of window() with these parameters."""
    call = catalyst.expression("TimeWindow", time, window.size_us, window.slide_us, window.start_offset_us)
    plan = catalyst.project([catalyst.alias(call, "window")], source)
    analysed = catalyst.dataset(catalyst.spark._jsparkSession, plan).queryExecution().analyzed()
    for node in walk(analysed):
        found = _window_structs(node)
        if found is not None:
            return found[1]
    return []
