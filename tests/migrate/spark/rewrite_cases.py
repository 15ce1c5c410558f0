"""Small tables, each with files that the other format cannot share for one reason, laid down by pyarrow and fastavro."""

from __future__ import annotations

import datetime as dt
import io
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq

from deltaberg.bitmap import PositionBitmap
from deltaberg.delta.table import DeltaTable
from deltaberg.delta.transaction import begin_transaction
from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.manifest.metrics import metric_map
from deltaberg.iceberg.partition.partition_spec import UNPARTITIONED, PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import IdentityTransform
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.single_value import encode_bounds
from deltaberg.iceberg.schema.types import (
    DateType,
    FixedType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    Type,
    UuidType,
)
from deltaberg.iceberg.table import Table
from deltaberg.storage import open_storage

UTC = dt.timezone.utc


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One reason. make: lays the table down in a folder. rows: what any reader of the target must see.

    options: of ``ConvertOptions``. files: how many are rewritten. refused_by: engines that cannot read such a table.
    """

    code: str
    to: str
    make: Callable[[Path], object]
    rows: pa.Table
    options: Mapping[str, Any] = field(default_factory=dict)
    files: int = 1
    refused_by: tuple[str, ...] = ()
    name: str | None = None

    @property
    def label(self) -> str:
        return f"{self.to}-{self.name or self.code}"


# Delta sources


def column(name: str, kind: object, **metadata: object) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def delta_log(
    folder: Path,
    columns: Sequence[Mapping[str, Any]],
    adds: Sequence[Mapping[str, Any]],
    *,
    partition_columns: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
    features: tuple[Sequence[str], Sequence[str]] | None = None,
    extra: Sequence[Mapping[str, Any]] = (),
) -> None:
    """A log of one commit. features: of readers, of writers."""
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
    if features is not None:
        readers, writers = features
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": readers, "writerFeatures": writers}
    described = {
        "id": "11111111-2222-3333-4444-555555555555",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": columns}),
        "partitionColumns": list(partition_columns),
        "configuration": dict(configuration or {}),
        "createdTime": 1,
    }
    log = folder / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    lines = [{"protocol": protocol}, {"metaData": described}, *extra, *({"add": each} for each in adds)]
    (log / f"{0:020d}.json").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def delta_file(
    folder: Path, rows: pa.Table, name: str = "a.parquet", *, stats: Any = None, **members: Any
) -> dict[str, Any]:
    """A Parquet file and the members of its ``add``; ``write``: options of pyarrow's writer."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, folder / name, **members.pop("write", {}))
    return {
        "path": name,
        "partitionValues": {},
        "size": (folder / name).stat().st_size,
        "modificationTime": 1,
        "dataChange": True,
        "stats": json.dumps({"numRecords": rows.num_rows, **(stats or {})}),
        **members,
    }


def with_ids(rows: pa.Table, ids: Mapping[str, int]) -> pa.Table:
    """The same rows, top-level columns with Parquet field ids."""
    return rows.cast(
        pa.schema(
            [
                each.with_metadata({"PARQUET:field_id": str(ids[each.name])}) if each.name in ids else each
                for each in rows.schema
            ]
        )
    )


MAPPED = {
    "configuration": {"delta.columnMapping.mode": "id", "delta.columnMapping.maxColumnId": "9"},
    "features": (["columnMapping"], ["columnMapping"]),
}


def mapped(name: str, kind: object, number: int) -> dict[str, Any]:
    """A column of a column-mapped table, its physical name its own."""
    return column(name, kind, **{"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name})


IDS = pa.table({"id": pa.array([1, 2, 3])})
MOMENTS = [dt.datetime(2024, 1, 2, 3, 4, 5, 123456, UTC), None, dt.datetime(1999, 12, 31, tzinfo=UTC)]


def char_padding(folder: Path) -> None:
    rows = pa.table({"id": [1, 2, 3], "c": ["a", None, "abcd"]})
    columns = [column("id", "long"), column("c", "string", __CHAR_VARCHAR_TYPE_STRING="char(4)")]
    delta_log(folder, columns, [delta_file(folder, rows)])


def field_ids_foreign(folder: Path) -> None:
    rows = with_ids(pa.table({"id": [1, 2, 3], "s": ["x", "y", None]}), {"id": 2, "s": 1})
    delta_log(folder, [column("id", "long"), column("s", "string")], [delta_file(folder, rows)])


def int96(folder: Path) -> None:
    rows = pa.table({"at": pa.array(MOMENTS, pa.timestamp("us", "UTC"))})
    told = {
        "minValues": {"at": "1999-12-31T00:00:00.000Z"},
        "maxValues": {"at": "2024-01-02T03:04:05.123Z"},
        "nullCount": {"at": 1},
    }
    file = delta_file(folder, rows, stats=told, write={"use_deprecated_int96_timestamps": True})
    delta_log(folder, [column("at", "timestamp")], [file])


def int96_unknown(folder: Path) -> None:
    rows = pa.table({"at": pa.array(MOMENTS, pa.timestamp("us", "UTC"))})
    delta_log(
        folder,
        [column("at", "timestamp")],
        [delta_file(folder, rows, write={"use_deprecated_int96_timestamps": True})],
    )


HYBRID = {
    "org.apache.spark.version": "3.5.0",
    "org.apache.spark.legacyDateTime": "",
    "org.apache.spark.timeZone": "UTC",
}


def legacy_calendar(folder: Path) -> None:
    # The day that Spark 2 called 1500-01-01, which both formats call 1500-01-10.
    stored = pa.array([(dt.date(1500, 1, 10) - dt.date(1970, 1, 1)).days], pa.int32()).cast(pa.date32())
    rows = pa.table({"d": stored}).replace_schema_metadata(HYBRID)
    delta_log(folder, [column("d", "date")], [delta_file(folder, rows)])


def lineage_not_in_file(folder: Path) -> None:
    rows = pa.table({"id": [1, 2], "_row-id": pa.array([7, None], pa.int64()), "_rcv": pa.array([0, None], pa.int64())})
    file = delta_file(folder, rows, baseRowId=10, defaultRowCommitVersion=0)
    tracked = {"configuration": json.dumps({"rowIdHighWaterMark": 11}), "domain": "delta.rowTracking", "removed": False}
    delta_log(
        folder,
        [column("id", "long")],
        [file],
        configuration={
            "delta.enableRowTracking": "true",
            "delta.rowTracking.materializedRowIdColumnName": "_row-id",
            "delta.rowTracking.materializedRowCommitVersionColumnName": "_rcv",
        },
        features=([], ["rowTracking", "domainMetadata"]),
        extra=[{"domainMetadata": tracked}],
    )


def narrow_type(folder: Path) -> None:
    rows = pa.table({"n": pa.array([1, None, -5], pa.int32())})
    wide = column("n", "double", **{"delta.typeChanges": [{"fromType": "integer", "toType": "double"}]})
    delta_log(
        folder,
        [wide],
        [delta_file(folder, rows)],
        configuration={"delta.enableTypeWidening": "true"},
        features=(["typeWidening"], ["typeWidening"]),
    )


def nested_ids_missing(folder: Path) -> None:
    rows = with_ids(pa.table({"id": [1, 2], "tags": [["a", "b"], None]}), {"id": 1, "tags": 2})
    array = {"type": "array", "elementType": "string", "containsNull": True}
    delta_log(folder, [mapped("id", "long", 1), mapped("tags", array, 2)], [delta_file(folder, rows)], **MAPPED)


def partition_double(folder: Path) -> None:
    files = [
        delta_file(folder, pa.table({"id": [1, 2]}), partitionValues={"x": "0.1"}),
        delta_file(folder, pa.table({"id": [3]}), "b.parquet", partitionValues={"x": "0.5"}),
    ]
    delta_log(folder, [column("id", "long"), column("x", "double")], files, partition_columns=["x"])


def partition_value_differs(folder: Path) -> None:
    rows = with_ids(pa.table({"id": [1, 2], "p": ["", ""]}), {"id": 1, "p": 2})
    file = delta_file(folder, rows, partitionValues={"p": ""})
    delta_log(folder, [mapped("id", "long", 1), mapped("p", "string", 2)], [file], partition_columns=["p"], **MAPPED)


def physical_type_foreign(folder: Path) -> None:
    moments = pa.array([1_700_000_000_123_456_000, None], pa.timestamp("ns", "UTC"))
    delta_log(folder, [column("at", "timestamp")], [delta_file(folder, pa.table({"at": moments}))])


MAPS: Final = pa.table({"id": [1, 2], "m": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64()))})


def map_group_names(folder: Path) -> None:
    """delta-rs calls the repeated group of a map ``entries``."""
    import deltalake

    deltalake.write_deltalake(str(folder), MAPS)


def two_level_lists(folder: Path) -> None:
    """Spark's legacy form of a list without nulls."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    assert session is not None
    session.conf.set("spark.sql.parquet.writeLegacyFormat", "true")
    try:
        frame = session.sql("SELECT id, IF(id = 1, array('a', 'b'), array('c')) tags FROM range(1, 3)")
        frame.coalesce(1).write.parquet(str(folder / "spark"))
    finally:
        session.conf.unset("spark.sql.parquet.writeLegacyFormat")
    (written,) = (folder / "spark").glob("*.parquet")
    file = {
        "path": f"spark/{written.name}",
        "partitionValues": {},
        "size": written.stat().st_size,
        "modificationTime": 1,
        "dataChange": True,
        "stats": json.dumps({"numRecords": 2}),
    }
    array = {"type": "array", "elementType": "string", "containsNull": True}
    delta_log(folder, [column("id", "long"), column("tags", array)], [file])


# Iceberg sources


def nested(number: int, name: str, kind: Type, **more: Any) -> NestedField:
    return NestedField(field_id=number, name=name, required=False, type=kind, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A file and what its entry says. bounds: lower and upper by field id."""

    content: bytes
    rows: int
    format: str = "parquet"
    partition: Mapping[str, Any] = field(default_factory=dict)
    bounds: Mapping[int, tuple[pa.Scalar, pa.Scalar]] = field(default_factory=dict)


def parquet(rows: pa.Table, ids: Mapping[str, int], **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(with_ids(rows, ids), sink, **options)
    return sink.getvalue()


def leaf(schema: Schema, number: int) -> NestedField:
    found = schema.find(number)
    assert found is not None
    return found


def iceberg_table(
    folder: Path,
    schema: Schema,
    files: Sequence[DataFile],
    spec: PartitionSpec = UNPARTITIONED,
    **options: Any,
) -> None:
    root = str(folder)
    (folder / "data").mkdir(parents=True, exist_ok=True)
    with create_table(open_storage(), root, schema=schema, spec=spec, **options) as transaction:
        builder = transaction.snapshot("append")
        for number, file in enumerate(files):
            place = folder / "data" / f"{number}.{file.format}"
            place.write_bytes(file.content)
            partition = pa.array([dict(file.partition)], spec.arrow_partition_type(schema))
            sides = [
                {
                    number: encode_bounds(pa.repeat(pair[side], 1), leaf(schema, number).type)
                    for number, pair in file.bounds.items()
                }
                for side in (0, 1)
            ]
            lower, upper = (
                metric_map(side, length=1) if side else pa.nulls(1, pa.map_(pa.int32(), pa.binary())) for side in sides
            )
            entry = pa.record_batch(
                {
                    "lower_bounds": lower,
                    "upper_bounds": upper,
                    "file_path": pa.array([str(place)]),
                    "file_format": pa.array([file.format]),
                    "partition": partition,
                    "record_count": pa.array([file.rows]),
                    "file_size_in_bytes": pa.array([len(file.content)]),
                    "spec_id": pa.array([spec.spec_id], pa.int32()),
                }
            )
            builder.add_files([entry], spec.spec_id)
        transaction.commit()


PAIR = Schema(schema_id=0, fields=(nested(1, "id", LongType()), nested(2, "s", StringType())))
PAIR_ROWS = pa.table({"id": [1, 2, 3], "s": ["a", None, "c"]})
NAMES = {"schema.name-mapping.default": json.dumps([{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["s"]}])}


def orc(folder: Path) -> None:
    sink = io.BytesIO()
    pyarrow.orc.write_table(PAIR_ROWS, sink)
    shared = DataFile(content=parquet(PAIR_ROWS, {"id": 1, "s": 2}), rows=3)
    iceberg_table(folder, PAIR, [DataFile(content=sink.getvalue(), rows=3, format="orc"), shared], properties=NAMES)


def avro(folder: Path) -> None:
    fields = [
        {"name": "id", "type": ["null", "long"], "field-id": 1},
        {"name": "s", "type": ["null", "string"], "field-id": 2},
    ]
    sink = io.BytesIO()
    fastavro.writer(sink, {"type": "record", "name": "table", "fields": fields}, PAIR_ROWS.to_pylist())
    iceberg_table(folder, PAIR, [DataFile(content=sink.getvalue(), rows=3, format="avro")])


UUIDS = [uuid.UUID(int=number).bytes for number in (1, 2)]


def type_mapped(folder: Path) -> None:
    schema = Schema(schema_id=0, fields=(nested(1, "u", UuidType()), nested(2, "f", FixedType(length=3))))
    rows = pa.table({"u": pa.array(UUIDS, pa.binary(16)), "f": pa.array([b"abc", None], pa.binary(3))})
    iceberg_table(folder, schema, [DataFile(content=parquet(rows, {"u": 1, "f": 2}), rows=2)])


def initial_default(folder: Path) -> None:
    schema = Schema(
        schema_id=0,
        fields=(nested(1, "id", LongType()), nested(2, "n", IntegerType(), initial_default=42, write_default=42)),
    )
    old = DataFile(content=parquet(IDS, {"id": 1}), rows=3)
    new = pa.table({"id": [4], "n": pa.array([7], pa.int32())})
    iceberg_table(folder, schema, [old, DataFile(content=parquet(new, {"id": 1, "n": 2}), rows=1)], format_version=3)


def former_names(folder: Path) -> None:
    now = DataFile(
        content=parquet(pa.table({"id": [9, 8, 7, 6], "s": ["w", "x", "y", "z"]}), {"id": 1, "s": 2}), rows=4
    )
    former = DataFile(content=parquet(PAIR_ROWS.rename_columns(["id", "old"]), {"id": 1, "old": 2}), rows=3)
    iceberg_table(folder, PAIR, [now, former])


def without_ids(folder: Path) -> None:
    names = [{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["s", "old"]}]
    now = DataFile(content=parquet(pa.table({"id": [9, 8, 7, 6], "s": ["w", "x", "y", "z"]}), {}), rows=4)
    former = DataFile(content=parquet(PAIR_ROWS.rename_columns(["id", "old"]), {}), rows=3)
    iceberg_table(folder, PAIR, [now, former], properties={"schema.name-mapping.default": json.dumps(names)})


def column_not_in_file(folder: Path) -> None:
    """The empty string is no partition value of Delta, so the column must be in every file."""
    spec = PartitionSpec(
        spec_id=0, fields=(PartitionField(source_ids=(2,), field_id=1000, name="s", transform=IdentityTransform()),)
    )
    files = [
        DataFile(content=parquet(pa.table({"id": [1, 2]}), {"id": 1}), rows=2, partition={"s": "p"}),
        DataFile(content=parquet(pa.table({"id": [3]}), {"id": 1}), rows=1, partition={"s": ""}),
    ]
    iceberg_table(folder, PAIR, files, spec)


def legacy_calendar_in_iceberg(folder: Path) -> None:
    """Iceberg's readers take the stored day as it is; Spark's reader of Delta would not."""
    stored = pa.array([(dt.date(1500, 1, 10) - dt.date(1970, 1, 1)).days], pa.int32()).cast(pa.date32())
    rows = with_ids(pa.table({"d": stored}), {"d": 1}).replace_schema_metadata(HYBRID)
    sink = io.BytesIO()
    pq.write_table(rows, sink)
    schema = Schema(schema_id=0, fields=(nested(1, "d", DateType()),))
    iceberg_table(folder, schema, [DataFile(content=sink.getvalue(), rows=1)])


def text_without_annotation(folder: Path) -> None:
    """As Impala and Hive once wrote text."""
    rows = pa.table({"id": [1, 2, 3], "s": pa.array([b"a", None, "ä".encode()], pa.binary())})
    iceberg_table(folder, PAIR, [DataFile(content=parquet(rows, {"id": 1, "s": 2}), rows=3)])


INSTANTS = pa.array(MOMENTS, pa.timestamp("us", "UTC"))


def int96_in_iceberg(folder: Path, *, bounded: bool) -> None:
    content = parquet(pa.table({"at": INSTANTS}), {"at": 1}, use_deprecated_int96_timestamps=True)
    bounds = {1: (INSTANTS[2], INSTANTS[0])} if bounded else {}
    schema = Schema(schema_id=0, fields=(nested(1, "at", TimestamptzType()),))
    iceberg_table(folder, schema, [DataFile(content=content, rows=3, bounds=bounds)])


def nanoseconds_in_iceberg(folder: Path) -> None:
    rows = pa.table({"at": pa.array([1_700_000_000_123_456_000, None], pa.timestamp("ns"))})
    schema = Schema(schema_id=0, fields=(nested(1, "at", TimestampType()),))
    iceberg_table(folder, schema, [DataFile(content=parquet(rows, {"at": 1}), rows=2)])


def with_deletes(make: Callable[[Path], object], file: int, positions: Sequence[int]) -> Callable[[Path], None]:
    """The same Iceberg table with some rows of one of its files deleted by a position delete file."""

    def laid_down(folder: Path) -> None:
        make(folder)
        place = next(each for each in sorted((folder / "data").iterdir()) if each.stem == str(file))
        kinds = pa.schema(
            [
                pa.field("file_path", pa.string(), metadata={"PARQUET:field_id": "2147483546"}),
                pa.field("pos", pa.int64(), metadata={"PARQUET:field_id": "2147483545"}),
            ]
        )
        deletes = folder / "data" / "deletes.parquet"
        pq.write_table(pa.table([[str(place)] * len(positions), list(positions)], schema=kinds), deletes)
        entry = {
            "content": pa.array([1], pa.int32()),
            "file_path": pa.array([str(deletes)]),
            "file_format": pa.array(["parquet"]),
            "record_count": pa.array([len(positions)]),
            "file_size_in_bytes": pa.array([deletes.stat().st_size]),
            "partition": pa.array([{}], pa.struct([])),
            "spec_id": pa.array([0], pa.int32()),
        }
        with Table.open(str(folder), open_storage()).transaction() as transaction:
            transaction.snapshot("delete").add_files([pa.record_batch(entry)], 0)
            transaction.commit()

    return laid_down


def with_vector(make: Callable[[Path], object], positions: Sequence[int]) -> Callable[[Path], None]:
    """The same Delta table of one file with some of its rows deleted by a vector."""

    def laid_down(folder: Path) -> None:
        make(folder)
        snapshot = DeltaTable.open(str(folder), open_storage()).snapshot()
        transaction = begin_transaction(snapshot)
        told = {**snapshot.metadata.configuration, "delta.enableDeletionVectors": "true"}
        transaction.set_metadata(replace(snapshot.metadata, configuration=told))
        (live,) = snapshot.add_files()
        bitmap = PositionBitmap.from_positions(np.array(positions, np.int64))
        (vector,) = transaction.write_deletion_vectors([(bitmap.serialize(), bitmap.cardinality)])
        described = {
            "storage_type": vector.storage_type,
            "path_or_inline_dv": vector.path_or_inline_dv,
            "offset": vector.offset,
            "size_in_bytes": vector.size_in_bytes,
            "cardinality": vector.cardinality,
        }
        place = live.schema.get_field_index("deletion_vector")
        kind = live.schema.field(place)
        transaction.remove_files([live])
        transaction.add_files([live.set_column(place, kind, pa.array([described], kind.type))])
        transaction.commit("DELETE")

    return laid_down


CASES = (
    Case(
        code="char-padding",
        to="iceberg",
        make=char_padding,
        rows=pa.table({"id": [1, 2, 3], "c": ["a   ", None, "abcd"]}),
    ),
    Case(
        code="field-ids-foreign",
        to="iceberg",
        make=field_ids_foreign,
        rows=pa.table({"id": [1, 2, 3], "s": ["x", "y", None]}),
    ),
    Case(
        code="int96-timestamps",
        to="iceberg",
        make=int96,
        rows=pa.table({"at": pa.array(MOMENTS, pa.timestamp("us", "UTC"))}),
        options={"strict": True},
    ),
    Case(
        code="int96-out-of-range",
        to="iceberg",
        make=int96_unknown,
        rows=pa.table({"at": pa.array(MOMENTS, pa.timestamp("us", "UTC"))}),
    ),
    Case(code="legacy-calendar", to="iceberg", make=legacy_calendar, rows=pa.table({"d": [dt.date(1500, 1, 1)]})),
    Case(
        code="lineage-not-in-file",
        to="iceberg",
        make=lineage_not_in_file,
        rows=pa.table({"id": [1, 2]}),
        options={"strict": True, "format_version": 3},
    ),
    Case(code="narrow-type", to="iceberg", make=narrow_type, rows=pa.table({"n": [1.0, None, -5.0]})),
    Case(
        code="nested-ids-missing",
        to="iceberg",
        make=nested_ids_missing,
        rows=pa.table({"id": [1, 2], "tags": [["a", "b"], None]}),
    ),
    Case(
        code="partition-double",
        to="iceberg",
        make=partition_double,
        rows=pa.table({"id": [1, 2, 3], "x": [0.1, 0.1, 0.5]}),
    ),
    Case(
        code="partition-value-differs",
        to="iceberg",
        make=partition_value_differs,
        rows=pa.table({"id": [1, 2], "p": pa.array([None, None], pa.string())}),
    ),
    Case(
        code="physical-type-foreign",
        to="iceberg",
        make=physical_type_foreign,
        rows=pa.table({"at": pa.array([1_700_000_000_123_456, None], pa.timestamp("us", "UTC"))}),
    ),
    Case(code="map-group-names", to="iceberg", make=map_group_names, rows=MAPS, options={"strict": True}),
    Case(
        code="two-level-lists",
        to="iceberg",
        make=two_level_lists,
        rows=pa.table({"id": [1, 2], "tags": [["a", "b"], ["c"]]}),
    ),
    Case(
        code="char-padding",
        name="vector",
        to="iceberg",
        make=with_vector(char_padding, [1]),
        rows=pa.table({"id": [1, 3], "c": ["a   ", "abcd"]}),
    ),
    Case(
        code="lineage-not-in-file",
        name="lineage-and-vector",
        to="iceberg",
        make=with_vector(lineage_not_in_file, [0]),
        rows=pa.table({"id": [2]}),
        options={"strict": True, "format_version": 3},
    ),
    Case(
        code="former-names",
        name="deletes",
        to="delta",
        make=with_deletes(former_names, 1, [0, 2]),
        rows=pa.table({"id": [2, 9, 8, 7, 6], "s": [None, "w", "x", "y", "z"]}),
        options={"former_names": "rewrite"},
    ),
    Case(
        code="data-file-format",
        name="no-live-rows",
        to="delta",
        make=with_deletes(avro, 0, [0, 1, 2]),
        rows=PAIR_ROWS.slice(0, 0),
    ),
    Case(code="data-file-format", name="orc", to="delta", make=orc, rows=pa.concat_tables([PAIR_ROWS, PAIR_ROWS])),
    Case(code="data-file-format", name="avro", to="delta", make=avro, rows=PAIR_ROWS),
    Case(
        code="type-mapped",
        to="delta",
        make=type_mapped,
        rows=pa.table({"u": [str(uuid.UUID(bytes=each)) for each in UUIDS], "f": [b"abc", None]}),
        options={"type_mappings": {"uuid": "string", "fixed": "binary"}},
    ),
    Case(
        code="initial-default",
        to="delta",
        make=initial_default,
        rows=pa.table({"id": [1, 2, 3, 4], "n": pa.array([42, 42, 42, 7], pa.int32())}),
    ),
    Case(
        code="former-names",
        to="delta",
        make=former_names,
        rows=pa.concat_tables([PAIR_ROWS, pa.table({"id": [9, 8, 7, 6], "s": ["w", "x", "y", "z"]})]),
        options={"former_names": "rewrite"},
    ),
    Case(
        code="field-ids-disagree",
        to="delta",
        make=without_ids,
        rows=pa.concat_tables([PAIR_ROWS, pa.table({"id": [9, 8, 7, 6], "s": ["w", "x", "y", "z"]})]),
    ),
    Case(
        code="partition-column-not-in-file",
        to="delta",
        make=column_not_in_file,
        rows=pa.table({"id": [1, 2, 3], "s": ["p", "p", ""]}),
        files=2,
    ),
    Case(
        code="legacy-calendar",
        to="delta",
        make=legacy_calendar_in_iceberg,
        rows=pa.table({"d": [dt.date(1500, 1, 10)]}),
    ),
    Case(
        code="physical-type-foreign",
        to="delta",
        make=nanoseconds_in_iceberg,
        rows=pa.table({"at": pa.array([1_700_000_000_123_456, None], pa.timestamp("us"))}),
    ),
    Case(
        code="narrow-type",
        to="delta",
        make=text_without_annotation,
        rows=pa.table({"id": [1, 2, 3], "s": ["a", None, "ä"]}),
    ),
    Case(
        code="int96-timestamps",
        to="delta",
        make=partial(int96_in_iceberg, bounded=True),
        rows=pa.table({"at": INSTANTS}),
        options={"strict": True},
    ),
    Case(
        code="int96-out-of-range",
        to="delta",
        make=partial(int96_in_iceberg, bounded=False),
        rows=pa.table({"at": INSTANTS}),
    ),
)
