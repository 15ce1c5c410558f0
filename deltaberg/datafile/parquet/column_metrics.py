"""Counts and bounds of the columns of written files, as both table formats keep them.

Kept for leaves that are not below a list or map (those have a size only, as Iceberg's own writers do): how many
values, nulls and NaNs, and the exact least and greatest value that is neither. A value below a null struct is null.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from deltaberg.datafile.file_schema import FileField, file_fields, is_list


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafMetrics:
    """One leaf over all files, each array with one entry per file; null is unknown or not applicable.

    ``path``: names from the top, with ``element``, ``key`` and ``value`` below lists and maps. ``lower`` and
    ``upper`` have the leaf's type. ``column_size`` is the compressed size in bytes.
    """

    path: tuple[str, ...]
    field_id: int | None
    type: pa.DataType
    repeated: bool
    column_size: pa.Array
    value_count: pa.Array
    null_count: pa.Array
    nan_count: pa.Array
    lower: pa.Array
    upper: pa.Array


@dataclass(slots=True)
class _Running:
    """The counts and bounds of one leaf in the file that is being written."""

    values: int = 0
    nulls: int = 0
    nans: int = 0
    lower: pa.Scalar | None = None
    upper: pa.Scalar | None = None

    def add(self, array: pa.Array) -> None:
        self.values += len(array)
        self.nulls += array.null_count
        if pt.is_null(array.type) or array.null_count == len(array):
            return
        if pt.is_floating(array.type):
            not_nan = pc.invert(pc.is_nan(array))
            found = len(array) - array.null_count - (pc.sum(not_nan).as_py() or 0)
            self.nans += found
            if found:
                array = array.filter(not_nan)
        bounds = pc.min_max(array)
        lower, upper = bounds["min"], bounds["max"]
        if not lower.is_valid:
            return
        if pt.is_floating(array.type):
            lower, upper = _signed_zeros(array, lower, upper)
        self.lower = lower if self.lower is None else _least(self.lower, lower)
        self.upper = upper if self.upper is None else _greatest(self.upper, upper)


def _signed_zeros(array: pa.Array, lower: pa.Scalar, upper: pa.Scalar) -> tuple[pa.Scalar, pa.Scalar]:
    """-0.0 is less than 0.0 in both formats, but not in Arrow's minimum of floats."""
    if lower.as_py() != 0 and upper.as_py() != 0:
        return lower, upper
    numbers = array.drop_null().to_numpy(zero_copy_only=False)
    negative = np.signbit(numbers[numbers == 0])
    if lower.as_py() == 0:
        lower = pa.scalar(-0.0 if negative.any() else 0.0, array.type)
    if upper.as_py() == 0:
        upper = pa.scalar(-0.0 if negative.all() else 0.0, array.type)
    return lower, upper


def _order(scalar: pa.Scalar) -> Any:
    value = scalar.value if hasattr(scalar, "value") else scalar.as_py()
    return (value, math.copysign(1, value)) if isinstance(value, float) else value


def _least(left: pa.Scalar, right: pa.Scalar) -> pa.Scalar:
    return right if _order(right) < _order(left) else left


def _greatest(left: pa.Scalar, right: pa.Scalar) -> pa.Scalar:
    return right if _order(right) > _order(left) else left


@dataclass(frozen=True, slots=True, kw_only=True)
class _LeafOfFile:
    path: tuple[str, ...]
    field: FileField
    repeated: bool
    steps: tuple[int, ...]


class MetricsBuilder:
    """Collects the metrics of files written one after the other."""

    def __init__(self, schema: pa.Schema) -> None:
        self._leaves = tuple(_leaves(file_fields(schema)))
        self._running: list[_Running] = []
        self._files: list[tuple[list[_Running], list[int]]] = []
        self.start_file()

    def start_file(self) -> None:
        self._running = [_Running() for _ in self._leaves]

    def add(self, batch: pa.RecordBatch) -> None:
        """Count one batch of the current file."""
        for leaf, running in zip(self._leaves, self._running, strict=True):
            if leaf.repeated:
                continue
            array = batch.column(leaf.steps[0])
            for step in leaf.steps[1:]:
                array = _child(array, step)
            running.add(array.storage if isinstance(array, pa.ExtensionArray) else array)

    def finish_file(self, column_sizes: list[int]) -> None:
        """Close the current file; the sizes are in the order of the leaves."""
        self._files.append((self._running, column_sizes))
        self.start_file()

    def result(self) -> tuple[LeafMetrics, ...]:
        return tuple(self._metrics(index, leaf) for index, leaf in enumerate(self._leaves))

    def _metrics(self, index: int, leaf: _LeafOfFile) -> LeafMetrics:
        kind = leaf.field.type
        kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
        states = [None if leaf.repeated else running[index] for running, _ in self._files]
        floating = pt.is_floating(kind)
        return LeafMetrics(
            path=leaf.path,
            field_id=leaf.field.field_id,
            type=kind,
            repeated=leaf.repeated,
            column_size=pa.array([sizes[index] for _, sizes in self._files], pa.int64()),
            value_count=pa.array([state and state.values for state in states], pa.int64()),
            null_count=pa.array([state and state.nulls for state in states], pa.int64()),
            nan_count=pa.array([state.nans if state and floating else None for state in states], pa.int64()),
            lower=_scalars([state and state.lower for state in states], kind),
            upper=_scalars([state and state.upper for state in states], kind),
        )


def _scalars(scalars: list[pa.Scalar | None], kind: pa.DataType) -> pa.Array:
    parts = [pa.nulls(1, kind) if scalar is None else pa.repeat(scalar, 1) for scalar in scalars]
    return pa.concat_arrays(parts) if parts else pa.array([], kind)


def _child(array: pa.Array, index: int) -> pa.Array:
    """A struct's field, null where the struct is."""
    return array.flatten()[index] if array.null_count else array.field(index)


def _leaves(fields: tuple[FileField, ...]) -> Iterator[_LeafOfFile]:
    for index, field in enumerate(fields):
        yield from _below(field, (field.name,), (index,), False)


def _below(field: FileField, path: tuple[str, ...], steps: tuple[int, ...], repeated: bool) -> Iterator[_LeafOfFile]:
    if not field.children:
        yield _LeafOfFile(path=path, field=field, repeated=repeated, steps=steps)
        return
    names = tuple(child.name for child in field.children)
    if is_list(field.type):
        names = ("element",)
    elif pt.is_map(field.type):
        names = ("key", "value")
    below = repeated or not pt.is_struct(field.type)
    for index, (child, name) in enumerate(zip(field.children, names, strict=True)):
        yield from _below(child, (*path, name), (*steps, index), below)
