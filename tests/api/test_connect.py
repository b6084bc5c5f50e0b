"""A Spark Connect session is refused at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkAttributeError

import pyslash
from pyslash.errors import UnsupportedQueryError


class ConnectSession:
    """As Connect's own session, which needs packages that pyslash does not: it has no attribute of the JVM's."""

    __module__ = "pyspark.sql.connect.session"

    def __getattr__(self, name: str) -> Any:
        raise PySparkAttributeError(errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": name})


@pytest.mark.parametrize("call", [pyslash.enable, lambda spark: pyslash.explain(SimpleNamespace(sparkSession=spark))])
def test_it_says_what_to_do(call: Any) -> None:
    with pytest.raises(UnsupportedQueryError, match=r"Spark Connect session.*without remote"):
        call(ConnectSession())
