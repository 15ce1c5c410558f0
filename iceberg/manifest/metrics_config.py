"""Which column metrics a table keeps: ``write.metadata.metrics.*`` as the reference implementation reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

import pyarrow as pa

from deltaberg.iceberg.errors import CorruptMetadata, InvalidIcebergRequest
from deltaberg.iceberg.manifest.bound_truncation import (
    truncate_lower_bytes,
    truncate_lower_text,
    truncate_upper_bytes,
    truncate_upper_text,
)
from deltaberg.iceberg.manifest.metrics import metric, metric_ids, metric_map
from deltaberg.iceberg.metadata.table_properties import int_property
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import BinaryType, FixedType, StringType

DEFAULT_MODE: Final = "write.metadata.metrics.default"
COLUMN_MODE: Final = "write.metadata.metrics.column."
MAX_INFERRED: Final = "write.metadata.metrics.max-inferred-column-defaults"
_TRUNCATE = re.compile(r"truncate\(\s*([0-9]{1,9})\s*\)")
_COUNTS = ("value_counts", "null_value_counts", "nan_value_counts")


class Keep(Enum):
    """How much is kept of a column's metrics."""

    NONE = "none"
    COUNTS = "counts"
    TRUNCATED = "truncate"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsMode:
    """The metrics that are kept of one column; ``length`` bounds text and binary when truncated."""

    keep: Keep
    length: int = 0

    @classmethod
    def parse(cls, text: str, key: str) -> MetricsMode:
        """``none``, ``counts``, ``truncate(N)`` or ``full``. Raises InvalidIcebergRequest."""
        lowered = text.strip().lower()
        match = _TRUNCATE.fullmatch(lowered)
        if match is not None and int(match[1]) > 0:
            return cls(keep=Keep.TRUNCATED, length=int(match[1]))
        if lowered in ("none", "counts", "full"):
            return cls(keep=Keep(lowered))
        raise InvalidIcebergRequest(
            f"Cannot use property {key}={text}: expected none, counts, truncate(length) or full"
        )


TRUNCATE_16: Final = MetricsMode(keep=Keep.TRUNCATED, length=16)
_NONE: Final = MetricsMode(keep=Keep.NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsConfig:
    """The mode of every column of a schema by field id."""

    modes: Mapping[int, MetricsMode]
    default: MetricsMode

    @classmethod
    def of(cls, properties: Mapping[str, str], schema: Schema) -> MetricsConfig:
        """From table properties; without a default only the first 100 columns keep metrics. Raises
        InvalidIcebergRequest for an unknown mode.
        """
        leaves = schema.leaves()
        modes: dict[int, MetricsMode] = {}
        if DEFAULT_MODE in properties:
            default = MetricsMode.parse(properties[DEFAULT_MODE], DEFAULT_MODE)
        else:
            default = TRUNCATE_16
            limit = int_property(properties, MAX_INFERRED, 100)
            modes.update((nested.field_id, _NONE) for nested in leaves[limit:])
        for nested in leaves:
            key = COLUMN_MODE + schema.full_name(nested.field_id)
            if key in properties:
                modes[nested.field_id] = MetricsMode.parse(properties[key], key)
        return cls(modes=modes, default=default)

    def mode(self, field_id: int) -> MetricsMode:
        """The mode of a field; the default for one that the schema has no longer."""
        return self.modes.get(field_id, self.default)

    def apply(self, batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
        """A batch of DATA_FILE_SCHEMA with the metrics cut to their modes. Column sizes are always kept."""
        for name in _COUNTS:
            batch = self._filtered(batch, name, (Keep.COUNTS, Keep.TRUNCATED, Keep.FULL))
        return self._bounded(self._bounded(batch, schema, "lower_bounds"), schema, "upper_bounds")

    def _filtered(self, batch: pa.RecordBatch, name: str, kept: tuple[Keep, ...]) -> pa.RecordBatch:
        maps = batch.column(name)
        ids = metric_ids(maps)
        if all(self.mode(field_id).keep in kept for field_id in ids):
            return batch
        columns = {field_id: metric(maps, field_id) for field_id in ids if self.mode(field_id).keep in kept}
        return _replaced(batch, name, columns)

    def _bounded(self, batch: pa.RecordBatch, schema: Schema, name: str) -> pa.RecordBatch:
        maps = batch.column(name)
        columns: dict[int, pa.Array] = {}
        changed = False
        for field_id in metric_ids(maps):
            mode = self.mode(field_id)
            if mode.keep in (Keep.NONE, Keep.COUNTS):
                changed = True
                continue
            values = metric(maps, field_id)
            if mode.keep is Keep.TRUNCATED:
                cut = _truncated(values, schema, field_id, mode.length, upper=name == "upper_bounds")
                changed = changed or cut is not values
                values = cut
            columns[field_id] = values
        return _replaced(batch, name, columns) if changed else batch


def _truncated(values: pa.Array, schema: Schema, field_id: int, length: int, *, upper: bool) -> pa.Array:
    found = schema.find(field_id)
    kind = None if found is None else found.type
    if isinstance(kind, StringType):
        try:
            text = values.cast(pa.string())
        except pa.ArrowInvalid as error:
            raise CorruptMetadata(f"Cannot shorten a bound of field {field_id}: it is not valid UTF-8") from error
        cut = truncate_upper_text(text, length) if upper else truncate_lower_text(text, length)
        return cut.cast(pa.binary())
    if isinstance(kind, (BinaryType, FixedType)):
        return truncate_upper_bytes(values, length) if upper else truncate_lower_bytes(values, length)
    return values


def _replaced(batch: pa.RecordBatch, name: str, columns: Mapping[int, pa.Array]) -> pa.RecordBatch:
    """The batch with one map column rebuilt; a file that had no map keeps having none."""
    index = batch.schema.get_field_index(name)
    field = batch.schema.field(index)
    rebuilt = metric_map(columns, length=batch.num_rows).cast(field.type)
    old = batch.column(index)
    if old.null_count:
        rebuilt = pa.MapArray.from_arrays(rebuilt.offsets, rebuilt.keys, rebuilt.items, mask=old.is_null())
    return batch.set_column(index, field, rebuilt)
