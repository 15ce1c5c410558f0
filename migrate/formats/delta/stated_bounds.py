"""The bounds and null counts in a Delta table's log, beside the values of the files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.log.file_actions import DELETION_VECTOR
from deltaberg.delta.scan import scan
from deltaberg.delta.schema.types import StructType
from deltaberg.migrate.source import DeltaSource
from deltaberg.migrate.verify.stated_bounds import StatedBounds, ValueRange, value_ranges
from deltaberg.translate.field_ids import Path


def stated_bounds(table: DeltaSource) -> Iterator[tuple[list[StatedBounds], Mapping[Path, ValueRange]]]:
    snapshot = table.snapshot
    mapping, partitions = snapshot.column_mapping, set(snapshot.metadata.partition_columns)
    leaves = list(_leaves(mapping.schema, mapping.physical_schema, partitions))
    paths = [logical for logical, _ in leaves]
    for adds in snapshot.add_files(check_totals=False):
        place = adds.schema.get_field_index("deletion_vector")
        whole = adds.set_column(place, adds.schema.field(place), pa.nulls(adds.num_rows, DELETION_VECTOR))
        for row in range(adds.num_rows):
            rows = scan(snapshot, files=[whole.slice(row, 1)], variant_as_json=False)
            ranges = value_ranges(rows.batches(), paths)
            stats = adds.column("stats").slice(row, 1)
            file = str(adds.column("path")[row])
            yield [_claim(file, stats, ranges, *leaf) for leaf in leaves], ranges


def _claim(
    file: str, stats: pa.Array, ranges: Mapping[Path, ValueRange], logical: Path, physical: Path
) -> StatedBounds:
    tight = _stat(stats, ("tight_bounds",))
    nulls = _stat(stats, ("null_count", *physical))
    count = None if nulls is None else nulls.as_py()
    # With wide bounds only "none" and "all" are meaningful counts.
    wide = tight is not None and tight.as_py() is False
    if wide and count not in {0, ranges[logical].rows}:
        count = None
    return StatedBounds(
        file=file,
        column=logical,
        lower=_stat(stats, ("min_values", *physical)),
        upper=_stat(stats, ("max_values", *physical)),
        nulls=count,
    )


def _leaves(logical: StructType, physical: StructType, skip: set[str]) -> Iterator[tuple[Path, Path]]:
    for mine, theirs in zip(logical.fields, physical.fields, strict=True):
        if mine.name in skip:
            continue
        if isinstance(mine.type, StructType) and isinstance(theirs.type, StructType):
            for below, names in _leaves(mine.type, theirs.type, set()):
                yield (mine.name, *below), (theirs.name, *names)
        else:
            yield (mine.name,), (theirs.name,)


def _stat(stats: pa.Array, path: Path) -> pa.Scalar | None:
    for name in path:
        if not pa.types.is_struct(stats.type) or stats.type.get_field_index(name) < 0:
            return None
        stats = pc.struct_field(stats, name)
    return None if pa.types.is_struct(stats.type) else stats[0]
