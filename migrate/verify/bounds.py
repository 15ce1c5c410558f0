"""Check the statistics of a table's files against the values that the files hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.log.file_actions import DELETION_VECTOR
from deltaberg.delta.scan import scan as scan_delta
from deltaberg.delta.schema.types import StructType
from deltaberg.iceberg.manifest.live_files import data_files
from deltaberg.iceberg.manifest.metrics import metric
from deltaberg.iceberg.scan.content_file import ContentFile
from deltaberg.iceberg.schema.read_schema import identity_constants
from deltaberg.iceberg.schema.single_value import decode_bounds
from deltaberg.iceberg.schema.types import GeographyType, GeometryType, NestedField, UnknownType, VariantType
from deltaberg.migrate.source import DeltaSource, IcebergSource, Source
from deltaberg.migrate.verify.check import SHOWN, Check
from deltaberg.migrate.verify.tables import field_path
from deltaberg.translate.field_ids import Path

_UNBOUNDED = (GeometryType, GeographyType, VariantType, UnknownType)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claim:
    """The statistics of one column of one file in the metadata; None where there are none."""

    file: str
    column: Path
    lower: pa.Scalar | None
    upper: pa.Scalar | None
    nulls: int | None


@dataclass(slots=True)
class _Range:
    """The values of one column of one file, added up batch by batch; NaN is in no range."""

    lower: pa.Scalar | None = None
    upper: pa.Scalar | None = None
    nulls: int = 0
    rows: int = 0

    def add(self, values: pa.Array) -> None:
        self.rows += len(values)
        self.nulls += values.null_count
        if pa.types.is_floating(values.type):
            values = values.filter(pc.invert(pc.is_nan(values)))
        if pa.types.is_nested(values.type) or pa.types.is_null(values.type):
            return
        ends = pc.min_max(values)
        if ends["min"].is_valid:
            lower, upper = ends["min"], ends["max"]
            self.lower = lower if self.lower is None or pc.less(lower, self.lower).as_py() else self.lower
            self.upper = upper if self.upper is None or pc.greater(upper, self.upper).as_py() else self.upper


def bounds_check(table: Source) -> Check:
    """Whether every bound encloses the values and every null count is the true one. Reads all data of the table."""
    differences: list[str] = []
    compared = total = 0
    found = _iceberg_claims(table) if isinstance(table, IcebergSource) else _delta_claims(table)
    for claims, ranges in found:
        for claim in claims:
            compared += 1
            found_here = list(_contradictions(claim, ranges[claim.column]))
            total += len(found_here)
            differences.extend(found_here[: max(0, SHOWN - len(differences))])
    return Check.of("bounds", compared, differences, total=total)


def _contradictions(claim: _Claim, values: _Range) -> Iterator[str]:
    where = f"{'.'.join(claim.column)} of {claim.file}"
    if claim.nulls is not None and claim.nulls != values.nulls:
        yield f"{where} has {values.nulls} nulls (the metadata say {claim.nulls})"
    for bound, end, word, outside in (
        (claim.lower, values.lower, "below its lower", pc.less),
        (claim.upper, values.upper, "above its upper", pc.greater),
    ):
        if bound is not None and bound.is_valid and end is not None and outside(end, bound.cast(end.type)).as_py():
            yield f"{where} holds {end.as_py()!r}, {word} bound {bound.as_py()!r}"


def _ranges(batches: Iterator[pa.RecordBatch], paths: Iterable[Path]) -> dict[Path, _Range]:
    result = {path: _Range() for path in paths}
    for batch in batches:
        for path, values in result.items():
            values.add(_leaf(batch, path))
    return result


def _iceberg_claims(table: IcebergSource) -> Iterator[tuple[list[_Claim], Mapping[Path, _Range]]]:
    metadata, schema = table.table.metadata, table.schema
    leaves = [
        leaf
        for leaf in schema.leaves()
        if not schema.within_collection(leaf.field_id) and not isinstance(leaf.type, _UNBOUNDED)
    ]
    paths = [field_path(schema, leaf) for leaf in leaves]
    for batch in data_files(table.table, table.snapshot):
        spec = metadata.spec_by_id(batch.column("spec_id")[0].as_py())
        bounds = {leaf.field_id: _iceberg_columns(batch, leaf) for leaf in leaves}
        names = ("file_path", "file_format", "key_metadata")
        for row, (path, kind, key) in enumerate(zip(*(batch.column(name).to_pylist() for name in names), strict=True)):
            constants = identity_constants(spec, batch.column("partition")[row])
            with ContentFile(table.storage, path, kind, key_metadata=key, name_mapping=metadata.name_mapping) as file:
                ranges = _ranges(file.iter_batches(schema.fields, constants=constants), paths)
            claims = []
            for leaf, column in zip(leaves, paths, strict=True):
                lower, upper, nulls = (values[row] for values in bounds[leaf.field_id])
                claims.append(_Claim(file=path, column=column, lower=lower, upper=upper, nulls=nulls.as_py()))
            yield claims, ranges


def _iceberg_columns(batch: pa.RecordBatch, leaf: NestedField) -> tuple[pa.Array, pa.Array, pa.Array]:
    return (
        decode_bounds(metric(batch.column("lower_bounds"), leaf.field_id), leaf.type),
        decode_bounds(metric(batch.column("upper_bounds"), leaf.field_id), leaf.type),
        metric(batch.column("null_value_counts"), leaf.field_id),
    )


def _leaf(rows: pa.RecordBatch, path: Path) -> pa.Array:
    column = rows.column(path[0])
    for name in path[1:]:
        column = pc.struct_field(column, name)
    return column


def _delta_claims(table: DeltaSource) -> Iterator[tuple[list[_Claim], Mapping[Path, _Range]]]:
    snapshot = table.snapshot
    mapping, partitions = snapshot.column_mapping, set(snapshot.metadata.partition_columns)
    leaves = list(_delta_leaves(mapping.schema, mapping.physical_schema, partitions))
    paths = [logical for logical, _ in leaves]
    for adds in snapshot.add_files(check_totals=False):
        place = adds.schema.get_field_index("deletion_vector")
        whole = adds.set_column(place, adds.schema.field(place), pa.nulls(adds.num_rows, DELETION_VECTOR))
        for row in range(adds.num_rows):
            scan = scan_delta(snapshot, files=[whole.slice(row, 1)], variant_as_json=False)
            ranges = _ranges(scan.batches(), paths)
            stats = adds.column("stats").slice(row, 1)
            file = str(adds.column("path")[row])
            yield [_delta_claim(file, stats, ranges, *leaf) for leaf in leaves], ranges


def _delta_claim(file: str, stats: pa.Array, ranges: Mapping[Path, _Range], logical: Path, physical: Path) -> _Claim:
    tight = _stat(stats, ("tight_bounds",))
    nulls = _stat(stats, ("null_count", *physical))
    count = None if nulls is None else nulls.as_py()
    # With wide bounds only "none" and "all" are meaningful counts.
    wide = tight is not None and tight.as_py() is False
    if wide and count not in {0, ranges[logical].rows}:
        count = None
    return _Claim(
        file=file,
        column=logical,
        lower=_stat(stats, ("min_values", *physical)),
        upper=_stat(stats, ("max_values", *physical)),
        nulls=count,
    )


def _delta_leaves(logical: StructType, physical: StructType, skip: set[str]) -> Iterator[tuple[Path, Path]]:
    for mine, theirs in zip(logical.fields, physical.fields, strict=True):
        if mine.name in skip:
            continue
        if isinstance(mine.type, StructType) and isinstance(theirs.type, StructType):
            for below, names in _delta_leaves(mine.type, theirs.type, set()):
                yield (mine.name, *below), (theirs.name, *names)
        else:
            yield (mine.name,), (theirs.name,)


def _stat(stats: pa.Array, path: Path) -> pa.Scalar | None:
    for name in path:
        if not pa.types.is_struct(stats.type) or stats.type.get_field_index(name) < 0:
            return None
        stats = pc.struct_field(stats, name)
    return None if pa.types.is_struct(stats.type) else stats[0]
