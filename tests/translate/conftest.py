"""Small Delta and Iceberg schemas, spelled briefly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deltaberg.delta.schema import types as delta
from deltaberg.iceberg.schema import types as ice
from deltaberg.iceberg.schema.schema import Schema


def _column(name: str, kind: Any, *, nullable: bool = True, **metadata: object) -> delta.StructField:
    return delta.StructField(
        name=name, type=kind, nullable=nullable, metadata={key.replace("__", "."): v for key, v in metadata.items()}
    )


@pytest.fixture(scope="session")
def column() -> Callable[..., delta.StructField]:
    """``column("a", LongType(), delta__columnMapping__id=1)``: a Delta field; ``__`` in a key stands for a dot."""
    return _column


@pytest.fixture(scope="session")
def delta_schema() -> Callable[..., delta.StructType]:
    """``delta_schema(column(...), ...)``."""
    return lambda *fields: delta.StructType(fields=tuple(fields))


@pytest.fixture(scope="session")
def field() -> Callable[..., ice.NestedField]:
    """``field(1, "a", LongType())``: an optional Iceberg field."""

    def make(field_id: int, name: str, kind: Any, *, required: bool = False, **more: Any) -> ice.NestedField:
        return ice.NestedField(field_id=field_id, name=name, required=required, type=kind, **more)

    return make


@pytest.fixture(scope="session")
def iceberg_schema() -> Callable[..., Schema]:
    """``iceberg_schema(field(...), ...)``."""
    return lambda *fields, **more: Schema(schema_id=0, fields=tuple(fields), **more)
