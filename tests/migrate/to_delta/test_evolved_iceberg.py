"""Iceberg tables whose schema, specs, deletes and format version changed under their files.

The rows that have to come out are written down here by hand; delta-rs and DuckDB read the targets.
"""

from __future__ import annotations

import gzip
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import api
from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.manifest.data_file import EQUALITY_DELETES, POSITION_DELETES
from deltaberg.iceberg.metadata.snapshot_ref import RefType
from deltaberg.iceberg.partition.partition_spec import UNPARTITIONED, PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import parse_transform
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import IntegerType, LongType, NestedField, StringType, StructType
from deltaberg.iceberg.table import Table
from deltaberg.migrate.convert import convert
from deltaberg.migrate.refusal import Refused
from deltaberg.migrate.verify.verify import verify
from deltaberg.storage import open_storage
from deltaberg.translate.options import ConvertOptions

pytest.importorskip("deltalake")


def optional(field_id: int, name: str, kind: Any) -> NestedField:
    return NestedField(field_id=field_id, name=name, required=False, type=kind)


def partitioned(spec_id: int, *fields: tuple[int, str, str]) -> PartitionSpec:
    """(source id, transform, name) each."""
    return PartitionSpec(
        spec_id=spec_id,
        fields=tuple(
            PartitionField(
                source_ids=(source,), field_id=1000 + 10 * spec_id + place, name=name, transform=parse_transform(text)
            )
            for place, (source, text, name) in enumerate(fields)
        ),
    )


class Growing:
    """A table of our own core that grows step by step. ``paths``: its data files in the order of their coming."""

    def __init__(self, root: str, schema: Schema, spec: PartitionSpec, version: int, write: Callable[..., Any]) -> None:
        self.root, self.write = root, write
        self.paths: list[str] = []
        with create_table(open_storage(), root, schema=schema, spec=spec, format_version=version) as transaction:
            transaction.commit()

    @property
    def table(self) -> Table:
        return Table.open(self.root, open_storage())

    def change(self, act: Callable[[Any], object]) -> None:
        with self.table.transaction() as transaction:
            act(transaction)
            transaction.commit()

    def append(self, *pieces: list[dict[str, Any]]) -> None:
        """One file for each piece, under the current schema and spec."""
        metadata = self.table.metadata
        schema, spec = metadata.schema, metadata.spec
        kinds = pa.schema([pa.field(each.name, _arrow(each.type)) for each in schema.fields])
        entries = [self.write(self.root, schema, pa.Table.from_pylist(piece, kinds), spec) for piece in pieces]
        self.paths += [entry.column("file_path")[0].as_py() for entry in entries]
        self.change(lambda each: each.snapshot("append").add_files(entries, spec.spec_id))

    def delete_equal(
        self,
        ids: list[int],
        keys: pa.Table,
        partition: dict[str, Any] | None = None,
        stored_ids: list[int] | None = None,
    ) -> None:
        """keys: columns in the order of ``ids``, or of ``stored_ids`` where keys are nested, under whatever names and types
        the file has."""
        stored = pa.schema(
            [
                field.with_metadata({"PARQUET:field_id": str(number)})
                for field, number in zip(keys.schema, stored_ids or ids, strict=True)
            ]
        )
        self._delete(keys.cast(stored), {"content": EQUALITY_DELETES, "equality_ids": ids}, partition)

    def delete_positions(self, rows: list[tuple[int, int]]) -> None:
        """(number of the file, position) each, in one delete file."""
        stored = pa.schema(
            [
                pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
                pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
            ]
        )
        named = sorted((self.paths[file], position) for file, position in rows)
        columns = [[path for path, _ in named], [position for _, position in named]]
        self._delete(pa.table(columns, schema=stored), {"content": POSITION_DELETES, "equality_ids": None}, None)

    def _delete(self, rows: pa.Table, what: dict[str, Any], partition: dict[str, Any] | None) -> None:
        metadata = self.table.metadata
        spec, place = metadata.spec, Path(self.root) / "data" / f"{uuid.uuid4()}-deletes.parquet"
        pq.write_table(rows, place)
        ids = pa.list_(pa.field("element", pa.int32(), nullable=False))
        entry = pa.record_batch(
            {
                "content": pa.array([what["content"]], pa.int32()),
                "file_path": pa.array([str(place)]),
                "file_format": pa.array(["parquet"]),
                "partition": pa.array([partition or {}], spec.arrow_partition_type(metadata.schema)),
                "record_count": pa.array([rows.num_rows]),
                "file_size_in_bytes": pa.array([place.stat().st_size]),
                "spec_id": pa.array([spec.spec_id], pa.int32()),
                "equality_ids": pa.array([what["equality_ids"]], ids),
            }
        )
        self.change(lambda each: each.snapshot("delete").add_files(entry, spec.spec_id))


def _arrow(kind: Any) -> pa.DataType:
    from deltaberg.iceberg.schema.types import arrow_type

    return arrow_type(kind)


@pytest.fixture
def grow(tmp_path: Path, write_iceberg_file: Any) -> Callable[..., Growing]:
    def make(schema: Schema, spec: PartitionSpec = UNPARTITIONED, version: int = 2) -> Growing:
        return Growing(str(tmp_path / "iceberg"), schema, spec, version, write_iceberg_file)

    return make


@pytest.fixture
def reads(
    tmp_path: Path, opened: Any, delta_rows: Any, independent: Any, difference: Any
) -> Callable[[Growing, list[dict[str, Any]]], Any]:
    """``reads(table, rows, options...)``: converted, the table reads as these rows in both engines, and verifies."""

    def check(
        grown: Growing,
        rows: list[dict[str, Any]],
        where: Mapping[str, Any] | None = None,
        columns: list[str] | None = None,
        **options: Any,
    ) -> Any:
        source = opened(grown.root, **(where or {}))
        target = tmp_path / f"delta-{uuid.uuid4()}"
        done = convert(source, to="delta", target=str(target), options=ConvertOptions(**options))
        got = delta_rows(target)
        got = got if columns is None else got.select(columns)
        wanted = pa.Table.from_pylist(rows, got.schema)
        assert not difference(got, wanted), difference(got, wanted)
        duck = independent.read("duckdb-delta", target).select(got.column_names)
        assert not difference(duck, wanted), difference(duck, wanted)
        report = verify(source, opened(target), rows=True, bounds=True)
        assert report.equal, report.to_json()
        return done

    return check


ID_KEY = Schema(schema_id=0, fields=(optional(1, "id", LongType()), optional(2, "k", IntegerType())))


class TestEqualityDeletes:
    def test_of_a_key_that_was_renamed_and_promoted_afterwards(self, grow: Any, reads: Any) -> None:
        """Files and deletes of before and after, keys of both widths and names."""
        table = grow(ID_KEY)
        table.append([{"id": 0, "k": 1}, {"id": 1, "k": 2}, {"id": 2, "k": None}])
        table.delete_equal([2], pa.table({"k": pa.array([1], pa.int32())}))
        table.change(lambda each: each.update_schema(lambda columns: columns.update_type("k", LongType())))
        table.change(lambda each: each.update_schema(lambda columns: columns.rename_column("k", "key")))
        table.append([{"id": 3, "key": 2**40}, {"id": 4, "key": 2}, {"id": 5, "key": 1}])
        table.delete_equal([2], pa.table({"key": pa.array([2**40, 2, None], pa.int64())}))
        table.append([{"id": 6, "key": 2}])
        reads(table, [{"id": 5, "key": 1}, {"id": 6, "key": 2}], former_names="rewrite")

    def test_of_a_key_that_was_dropped_since_and_one_that_files_lack(self, grow: Any, reads: Any) -> None:
        """A dropped column still deletes; a column that a file lacks is null in it."""
        table = grow(ID_KEY)
        table.append([{"id": 0, "k": 1}, {"id": 1, "k": 2}])
        table.change(lambda each: each.update_schema(lambda columns: columns.add_column("late", StringType())))
        table.append([{"id": 2, "k": 3, "late": "x"}, {"id": 3, "k": 1, "late": None}])
        table.delete_equal([2], pa.table({"k": pa.array([1], pa.int32())}))
        table.change(lambda each: each.update_schema(lambda columns: columns.delete_column("k")))
        reads(table, [{"id": 1, "late": None}, {"id": 2, "late": "x"}])
        table.delete_equal([3], pa.table({"late": pa.array([None], pa.string())}))
        reads(table, [{"id": 2, "late": "x"}])

    def test_after_the_specs_evolved_reach_their_own_partition_or_all(self, grow: Any, reads: Any) -> None:
        table = grow(ID_KEY, partitioned(0, (2, "identity", "k")))
        table.append([{"id": 0, "k": 1}, {"id": 1, "k": 1}], [{"id": 0, "k": 2}, {"id": 1, "k": 2}])
        table.delete_equal([1], pa.table({"id": [0]}), {"k": 1})
        table.change(lambda each: each.set_spec(partitioned(1, (1, "bucket[4]", "bucket"))))
        table.append([{"id": 7, "k": 1}])
        table.change(lambda each: each.set_spec(PartitionSpec(spec_id=2, fields=())))
        table.delete_equal([1], pa.table({"id": [7, 1]}))
        table.append([{"id": 7, "k": 3}])
        reads(table, [{"id": 0, "k": 2}, {"id": 7, "k": 3}])

    def test_of_a_nested_key_reach_rows_under_a_null_parent_and_the_plan_says_so(self, grow: Any, reads: Any) -> None:
        """By the specification the field is null there. A column of its own, and a struct that must be there, need no note."""
        table = grow(WITH_STRUCT)
        rows = [
            {"id": 1, "place": None, "text": "a"},
            {"id": 2, "place": {"town": None}, "text": "b"},
            {"id": 3, "place": {"town": "x"}, "text": "c"},
        ]
        table.append(rows)
        table.delete_equal([1], pa.table({"id": [9]}))
        assert "equality-deletes-nested" not in {item.code for item in api.plan(table.root, to="delta").items}
        town = pa.field("town", pa.string(), metadata={"PARQUET:field_id": "3"})
        keys = pa.array([{"town": None}], pa.struct([town]))
        table.delete_equal([3], pa.table({"place": keys}), stored_ids=[2])
        done = reads(table, rows[2:])
        assert [(i.severity, i.what) for i in done.plan.items if i.code == "equality-deletes-nested"] == [
            ("info", "place.town")
        ]

    def test_reach_files_that_were_written_in_version_1(self, grow: Any, reads: Any) -> None:
        """Their manifests have no sequence numbers, which counts as 0."""
        table = grow(ID_KEY, version=1)
        table.append([{"id": 0, "k": 1}, {"id": 1, "k": 2}])
        table.change(lambda each: each.upgrade(2))
        table.delete_equal([2], pa.table({"k": pa.array([1], pa.int32())}))
        table.append([{"id": 2, "k": 1}])
        reads(table, [{"id": 1, "k": 2}, {"id": 2, "k": 1}])


class TestPositionDeletes:
    def test_of_one_file_that_covers_several(self, grow: Any, reads: Any) -> None:
        table = grow(ID_KEY)
        table.append([{"id": 0, "k": 0}, {"id": 1, "k": 0}], [{"id": 2, "k": 0}, {"id": 3, "k": 0}])
        table.delete_positions([(0, 0), (1, 1)])
        table.delete_positions([(1, 1)])
        reads(table, [{"id": 1, "k": 0}, {"id": 2, "k": 0}])

    def test_of_before_an_upgrade_count_beside_vectors(
        self, grow: Any, reads: Any, delete_from_iceberg: Any, opened: Any
    ) -> None:
        """The vector of a file replaces its position deletes, which it has to hold; other files keep theirs."""
        table = grow(ID_KEY)
        table.append([{"id": n, "k": 0} for n in range(4)], [{"id": n, "k": 1} for n in range(4)])
        table.delete_positions([(0, 0), (1, 0)])
        table.change(lambda each: each.upgrade(3))
        first = sorted(table.paths).index(table.paths[0])
        delete_from_iceberg(table.table.metadata_location, {first: [0, 2]})
        wanted = [{"id": 1, "k": 0}, {"id": 3, "k": 0}, *({"id": n, "k": 1} for n in (1, 2, 3))]
        reads(table, wanted)
        table.delete_equal([1], pa.table({"id": [3]}))
        reads(table, [{"id": 1, "k": 0}, {"id": 1, "k": 1}, {"id": 2, "k": 1}])


PLACE = StructType(fields=(optional(3, "town", StringType()),))
WITH_STRUCT = Schema(
    schema_id=0,
    fields=(optional(1, "id", LongType()), optional(2, "place", PLACE), optional(4, "text", StringType())),
)


class TestPartitions:
    def test_by_transforms_of_odd_values(self, grow: Any, reads: Any) -> None:
        """Truncated characters beyond the first plane, truncated negative numbers, buckets of them, void."""
        spec = partitioned(
            0, (4, "truncate[2]", "start"), (4, "bucket[5]", "bucket"), (1, "truncate[10]", "tens"), (1, "void", "none")
        )
        table = grow(WITH_STRUCT, spec)
        rows = [
            {"id": -1, "place": None, "text": "😀é日本"},
            {"id": -10, "place": {"town": None}, "text": "a\u0301bc"},
            {"id": 15, "place": {"town": "x"}, "text": ""},
            {"id": None, "place": {"town": ""}, "text": None},
        ]
        for row in rows:
            entry_rows = pa.Table.from_pylist([row], pa.schema([(f.name, _arrow(f.type)) for f in WITH_STRUCT.fields]))
            entry = table.write(table.root, WITH_STRUCT, entry_rows, spec)
            table.change(lambda each, entry=entry: each.snapshot("append").add_files(entry, 0))
        reads(table, rows)
        derived = reads(table, rows, derive_partition_columns=True, columns=["id", "place", "text"])
        assert "partition-column-derived" in {item.code for item in derived.plan.items}

    def test_by_a_field_of_a_struct(self, grow: Any, tmp_path: Path, reads: Any) -> None:
        """Delta has no such partition column: the field stays where it is, in the files."""
        table = grow(WITH_STRUCT, partitioned(0, (1, "identity", "id")))
        table.append([{"id": 1, "place": {"town": "x"}, "text": "a"}])
        nested = partitioned(1, (3, "identity", "place.town"))
        table.change(lambda each: each.set_spec(nested))
        schema = table.table.metadata.schema
        rows = pa.Table.from_pylist(
            [{"id": 2, "place": {"town": "y"}, "text": None}],
            pa.schema([(f.name, _arrow(f.type)) for f in schema.fields]),
        )
        flat = table.write(table.root, schema, rows, UNPARTITIONED)
        entry = flat.set_column(
            flat.schema.get_field_index("partition"),
            "partition",
            pa.array([{"place.town": "y"}], nested.arrow_partition_type(schema)),
        ).set_column(flat.schema.get_field_index("spec_id"), "spec_id", pa.array([1], pa.int32()))
        table.change(lambda each: each.snapshot("append").add_files(entry, 1))
        wanted = [{"id": 1, "place": {"town": "x"}, "text": "a"}, {"id": 2, "place": {"town": "y"}, "text": None}]
        done = reads(table, wanted)
        assert "partition-evolution" in {item.code for item in done.plan.items}
        assert done.plan.target["partitioning"] == []

    def test_in_a_file_of_compressed_metadata(self, grow: Any, reads: Any) -> None:
        table = grow(ID_KEY)
        table.append([{"id": 1, "k": 1}])
        place = Path(table.table.metadata_location)
        packed = place.with_name(place.name.replace(".metadata.json", ".gz.metadata.json"))
        packed.write_bytes(gzip.compress(place.read_bytes()))
        place.unlink()
        reads(table, [{"id": 1, "k": 1}])


class TestBranches:
    def test_are_converted_by_name(self, grow: Any, reads: Any) -> None:
        table = grow(ID_KEY)
        table.append([{"id": 1, "k": 1}])
        snapshot = table.table.metadata.current_snapshot_id
        table.change(lambda each: each.set_ref("audit", snapshot))
        table.append([{"id": 2, "k": 2}])
        reads(table, [{"id": 1, "k": 1}], where={"ref": "audit"})
        reads(table, [{"id": 1, "k": 1}, {"id": 2, "k": 2}])


def test_goes_there_and_back_twice(
    tmp_path: Path, grow: Any, opened: Any, delta_rows: Any, iceberg_rows: Any, difference: Any
) -> None:
    """Vectors that deltaberg wrote are carried on, and nothing is left out on the way."""
    table = grow(ID_KEY)
    table.append([{"id": n, "k": n % 3} for n in range(6)])
    table.delete_equal([2], pa.table({"k": pa.array([1], pa.int32())}))
    wanted = pa.table({"id": [0, 2, 3, 5], "k": pa.array([0, 2, 0, 2], pa.int32())})
    place = table.root
    for turn in range(2):
        to_delta = convert(opened(place), to="delta", target=str(tmp_path / f"delta{turn}"))
        assert not difference(delta_rows(to_delta.target), wanted)
        to_iceberg = convert(opened(to_delta.target), to="iceberg", target=str(tmp_path / f"back{turn}"))
        assert not difference(iceberg_rows(to_iceberg.target_metadata), wanted)
        place = to_iceberg.target
        assert verify(opened(table.root), opened(place), rows=True, bounds=True).equal


def test_a_file_that_is_listed_twice_is_refused_by_code(tmp_path: Path, grow: Any) -> None:
    """Two live entries of one path: nobody can say whether its rows are there once or twice."""
    table = grow(ID_KEY)
    table.append([{"id": 1, "k": 1}])
    folder = Path(table.root)
    schema, spec = table.table.metadata.schema, table.table.metadata.spec
    entry = table.write(table.root, schema, pa.table({"id": [2], "k": pa.array([2], pa.int32())}), spec)
    twin = entry.column("file_path")[0].as_py()
    table.change(lambda each: each.snapshot("append").add_files(entry, 0))
    table.change(lambda each: each.snapshot("append").add_files(entry, 0))
    made = api.plan(folder, to="delta")
    assert [(item.code, item.what) for item in made.items if item.severity == "refuse"] == [("file-listed-twice", twin)]
    with pytest.raises(Refused, match=f"file-listed-twice: {twin}"):
        api.convert(folder, to="delta")
    assert not (folder / "_delta_log").exists()


def refusals(folder: str) -> list[tuple[str, str]]:
    return [(item.code, item.what) for item in api.plan(folder, to="delta").items if item.severity == "refuse"]


def test_an_encrypted_file_is_refused_before_it_is_shared(grow: Any) -> None:
    """Its footer may be plain: only the manifest says that readers need a key, and Delta has no place for one."""
    table = grow(ID_KEY)
    table.append([{"id": 1, "k": 1}])
    schema, spec = table.table.metadata.schema, table.table.metadata.spec
    entry = table.write(table.root, schema, pa.table({"id": [2], "k": pa.array([2], pa.int32())}), spec)
    secret = entry.append_column("key_metadata", pa.array([b"key"]))
    table.change(lambda each: each.snapshot("append").add_files(secret, 0))
    ((code, _),) = refusals(table.root)
    assert code == "source-feature"
    with pytest.raises(Refused, match=f"{entry.column('file_path')[0].as_py()}: it is encrypted; decrypt the table"):
        api.convert(table.root, to="delta")
    assert not (Path(table.root) / "_delta_log").exists()


def test_files_without_field_ids_need_a_name_mapping(grow: Any, reads: Any) -> None:
    """No Iceberg reader finds their columns by name without one; with one they are shared as they are."""
    table = grow(ID_KEY)
    schema, spec = table.table.metadata.schema, table.table.metadata.spec
    rows = pa.table({"id": [7], "k": pa.array([8], pa.int32())})
    entry = table.write(table.root, schema, rows, spec)
    place = Path(entry.column("file_path")[0].as_py())
    pq.write_table(rows, place)
    columns = {
        **dict(zip(entry.schema.names, entry.columns, strict=True)),
        "file_size_in_bytes": [place.stat().st_size],
    }
    table.change(lambda each: each.snapshot("append").add_files(pa.record_batch(columns), 0))
    assert refusals(table.root) == [("field-ids-unmapped", "data files")]
    with pytest.raises(Refused, match="field-ids-unmapped: data files"):
        api.convert(table.root, to="delta")
    names = '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["k"]}]'
    table.change(lambda each: each.set_properties({"schema.name-mapping.default": names}))
    done = reads(table, [{"id": 7, "k": 8}])
    assert (done.plan.shared_files, done.plan.rewritten_files) == (1, 0)


def test_the_current_snapshot_asked_for_by_id_comes_in_its_own_schema(grow: Any) -> None:
    """A column that was renamed afterwards is the table's and its branches' business, not that of a point in time."""
    table = grow(ID_KEY)
    table.append([{"id": 1, "k": 2}])
    snapshot = table.table.metadata.current_snapshot_id
    table.change(lambda each: each.set_ref("kept", snapshot, type=RefType.TAG))
    table.change(lambda each: each.update_schema(lambda columns: columns.rename_column("k", "key")))
    assert api.scan(table.root).read_all().to_pylist() == [{"id": 1, "key": 2}]
    assert api.scan(table.root, ref="main").read_all().to_pylist() == [{"id": 1, "key": 2}]
    assert api.scan(table.root, snapshot_id=snapshot).read_all().to_pylist() == [{"id": 1, "k": 2}]
    assert api.scan(table.root, ref="kept").read_all().to_pylist() == [{"id": 1, "k": 2}]
    assert api.scan(table.root, as_of="9999-01-01").read_all().to_pylist() == [{"id": 1, "k": 2}]
