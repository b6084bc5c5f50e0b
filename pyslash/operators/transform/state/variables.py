"""The variables that a processor declares in its `init`: their names, kinds and schemas."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from inspect import signature
from io import BytesIO
from operator import index
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.errors import PySparkRuntimeError
from pyspark.serializers import CPickleSerializer
from pyspark.sql.streaming.stateful_processor import ListState, MapState, StatefulProcessor, ValueState
from pyspark.sql.types import StructType, _parse_datatype_string

from pyslash.operators.transform.state.values import is_kept
from pyslash.plan.change.processor import Fields, KeptVariable
from pyslash.plan.reasons import Uncovered

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor_util import TransformWithStateInPandasUdfUtils

VALUE, LIST, MAP = "value", "list", "map"
STATE_OF_GROUP = "GroupState"
"""The variable of a function of `applyInPandasWithState`."""
Schema: TypeAlias = StructType | str
_OF_CLASSES = {("pyspark.cloudpickle.cloudpickle", f"_make_skeleton_{kind}") for kind in ("class", "enum")}


@dataclass(frozen=True)
class Variable:
    """A variable. `ttl_ms` is None: it does not expire. Schemas are Spark's JSON; `key` is that of a map's keys."""

    name: str
    kind: str
    value: str
    key: str = ""
    ttl_ms: int | None = None

    @property
    def kept(self) -> KeptVariable:
        """As far as its state goes."""
        return KeptVariable(self.name, self.kind, _fields(self.value), _fields(self.key), self.ttl_ms is not None)


def loaded(command: bytes, *, apart: bool = False) -> TransformWithStateInPandasUdfUtils:
    """PySpark's wrapper around the user's processor, as the worker has it. `apart` is as in `unpickled`.

    Raises:
        Uncovered: what PySpark has pickled is something else.
    """
    # Spark 4.0 has no such class, and no processor that comes here.
    from pyspark.sql.streaming.stateful_processor_util import TransformWithStateInPandasUdfUtils

    function = unpickled(command, apart=apart)
    wrapper = getattr(function, "__self__", None)
    if not isinstance(wrapper, TransformWithStateInPandasUdfUtils):
        raise Uncovered(f"PySpark runs its processor by {function!r}, which is not known")
    return wrapper


def unpickled(command: bytes, *, apart: bool = False) -> Any:
    """The function that the worker would call; `apart`, in the process that has pickled it: with classes of its own.

    Raises:
        Uncovered: it is not in the command.
    """
    pickled = _Apart(BytesIO(command), encoding="bytes").load() if apart else CPickleSerializer().loads(command)
    if not isinstance(pickled, tuple):
        raise Uncovered("its processor is so large that PySpark broadcasts it")
    return pickled[0]


class _Apart(pickle.Unpickler):
    """Makes a class of each that PySpark has pickled by value: those of scripts, notebooks and functions.

    In the process that has defined a class, PySpark's way gives it, to its user, the methods and attributes out of the
    pickle in the place of its own: methods that have the globals of that time.
    """

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        if (module, name) not in _OF_CLASSES:
            return found

        def made(*values: Any) -> Any:
            bound = signature(found).bind(*values)
            bound.arguments["class_tracker_id"] = None  # by which one that is there already is found
            return found(*bound.args, **bound.kwargs)

        return made


def processor_of(wrapper: TransformWithStateInPandasUdfUtils) -> StatefulProcessor:
    """The user's processor itself."""
    return wrapper._stateful_processor


def group_state(command: bytes, schema: str) -> list[Variable]:
    """The one variable of a function of `applyInPandasWithState`, whose state has this schema.

    Raises:
        Uncovered: the message is the reason.
    """
    try:
        unpickled(command, apart=True)
    except Uncovered:
        raise
    except Exception as error:
        raise Uncovered(f"its function cannot be read in the driver: {type(error).__name__}: {error}") from error
    variable = Variable(STATE_OF_GROUP, VALUE, schema)
    _check(variable, nested=False)  # Spark 4.3 fails over a state that has arrays
    return [variable]


def declared(command: bytes, expires: bool) -> tuple[list[Variable], list[str]]:
    """The variables of a processor, and those that it deletes. Its `init` is run for that: as Spark does, in the
    driver's application.

    Args:
        command: the processor as PySpark has pickled it.
        expires: whether variables may have a time to live.

    Raises:
        Uncovered: the message is the reason.
    """
    handle = _Declarations()
    try:
        processor = processor_of(loaded(command, apart=True))
        processor.init(handle)
        processor.close()
    except Uncovered:
        raise
    except Exception as error:
        raise Uncovered(f"the init of its processor fails in the driver: {type(error).__name__}: {error}") from error
    names = [one.name for one in handle.variables]
    if len({*names}) < len(names):
        raise Uncovered("its processor declares a variable twice")
    if both := sorted({*names} & {*handle.deleted}):
        raise Uncovered(f"its processor declares the variable {both[0]}, which it deletes in each micro-batch")
    for one in handle.variables:
        if one.ttl_ms is not None and (not expires or one.ttl_ms <= 0):
            raise Uncovered(f"the time to live of {one.name} is one that Spark refuses")
        _check(one)
    return handle.variables, sorted({*handle.deleted})


def _check(variable: Variable, *, nested: bool = True) -> None:
    for schema, as_key in ((variable.value, False), (variable.key, True)):
        fields = StructType.fromJson(json.loads(schema)).fields if schema else []
        for field in fields:
            if not is_kept(field.dataType, as_key=as_key, nested=nested):
                what = "a key of the map" if as_key else "a value of"
                raise Uncovered(f"{what} {variable.name} is a {field.dataType.simpleString()}, which is not kept yet")


class _Declarations:
    """A `StatefulProcessorHandle` that writes down what is declared."""

    def __init__(self) -> None:
        self.variables: list[Variable] = []
        self.deleted: list[str] = []

    def getValueState(self, stateName: str, schema: Schema, ttlDurationMs: int | None = None) -> ValueState:
        self.variables.append(Variable(stateName, VALUE, _json(schema), ttl_ms=life_of(ttlDurationMs)))
        return ValueState(_Undefined(), stateName)

    def getListState(self, stateName: str, schema: Schema, ttlDurationMs: int | None = None) -> ListState:
        self.variables.append(Variable(stateName, LIST, _json(schema), ttl_ms=life_of(ttlDurationMs)))
        return ListState(_Undefined(), stateName)

    def getMapState(
        self, stateName: str, userKeySchema: Schema, valueSchema: Schema, ttlDurationMs: int | None = None
    ) -> MapState:
        self.variables.append(
            Variable(stateName, MAP, _json(valueSchema), _json(userKeySchema), life_of(ttlDurationMs))
        )
        return MapState(_Undefined(), stateName)

    def deleteIfExists(self, stateName: str) -> None:
        self.deleted.append(stateName)

    def __getattr__(self, name: str) -> Any:
        raise PySparkRuntimeError(f"{name} in the init of a processor")


class _Undefined:
    """State has no key yet."""

    def __getattr__(self, name: str) -> Any:
        raise PySparkRuntimeError(f"{name} of state in the init of a processor")


def life_of(ttl_ms: int | None) -> int | None:
    """A time to live as Python's number, not NumPy's, which is not kept. One of 0 is none, as in Spark."""
    return None if ttl_ms is None else index(ttl_ms) or None


def _fields(schema: str) -> Fields:
    fields = StructType.fromJson(json.loads(schema)).fields if schema else []
    return tuple((field.name, field.dataType.simpleString()) for field in fields)


def _json(schema: Schema) -> str:
    parsed = _parse_datatype_string(schema) if isinstance(schema, str) else schema
    assert isinstance(parsed, StructType)
    return str(parsed.json())
