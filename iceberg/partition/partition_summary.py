"""The summary of one partition field over all entries of a manifest (``field_summary`` in "Manifest Lists")."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.manifest.manifest_list import FieldSummary
from deltaberg.iceberg.schema.single_value import encode_bounds, minimum_and_maximum
from deltaberg.iceberg.schema.types import Type, UnknownType, arrow_type


class PartitionSummary:
    """Summarises a partition field from its values, batch by batch; only the extremes are kept."""

    def __init__(self, kind: Type) -> None:
        self.kind = kind
        self.contains_null = False
        self.contains_nan = False
        self._extremes: list[pa.Scalar] = []

    def add(self, values: pa.Array) -> None:
        """Add some values, typed ``arrow_type(kind)``."""
        self.contains_null = self.contains_null or values.null_count > 0
        if isinstance(self.kind, UnknownType):
            return
        if pa.types.is_floating(values.type):
            self.contains_nan = self.contains_nan or pc.any(pc.is_nan(values)).as_py() is True
        found = minimum_and_maximum(pa.concat_arrays([self._kept(), values]))
        self._extremes = [each for each in found if each.is_valid]

    def result(self) -> FieldSummary:
        """The summary of all values so far; bounds are None when there is none but null and NaN."""
        if not self._extremes:
            return FieldSummary(contains_null=self.contains_null, contains_nan=self.contains_nan)
        lower, upper = encode_bounds(self._kept(), self.kind).to_pylist()
        return FieldSummary(
            contains_null=self.contains_null, contains_nan=self.contains_nan, lower_bound=lower, upper_bound=upper
        )

    def _kept(self) -> pa.Array:
        return pa.array(self._extremes, arrow_type(self.kind))
