"""What Parquet footers say, for one file or many, without reading any column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from deltaberg.datafile.errors import DataFileError
from deltaberg.datafile.file_schema import FileField, file_fields, has_field_ids, is_list
from deltaberg.datafile.parquet import parquet_errors, row_counts
from deltaberg.datafile.parquet_schema import calendars, two_level_lists
from deltaberg.storage import Storage

FOOTER_SCHEMA = pa.schema(
    [
        pa.field("location", pa.string(), nullable=False),
        pa.field("num_rows", pa.int64(), nullable=False),
        pa.field("layout", pa.int32(), nullable=False),
        pa.field("null_counts", pa.list_(pa.int64()), nullable=False),
        pa.field("legacy_datetime", pa.bool_(), nullable=False),
        pa.field("legacy_int96", pa.bool_(), nullable=False),
        pa.field("created_by", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One physical column. ``path``: the names from the top; ``element``, ``key`` and ``value`` below lists and maps.

    ``repeated``: a list or map is above it, so its null count is not one of rows.
    """

    path: tuple[str, ...]
    type: pa.DataType
    field_id: int | None
    physical_type: str
    repeated: bool

    @property
    def is_int96(self) -> bool:
        return self.physical_type == "INT96"

    @property
    def is_calendar_dependent(self) -> bool:
        """Whether a legacy calendar, where the footer names one, changes what its values mean."""
        return bool(pt.is_date(self.type) or pt.is_timestamp(self.type))


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterLayout:
    """The columns of a file; most files of a table share one. ``two_level_lists``: dotted paths of such lists."""

    fields: tuple[FileField, ...]
    leaves: tuple[Leaf, ...]
    two_level_lists: tuple[str, ...]
    has_field_ids: bool

    @property
    def int96_columns(self) -> tuple[str, ...]:
        """Dotted paths of the leaves stored as INT96."""
        return tuple(".".join(leaf.path) for leaf in self.leaves if leaf.is_int96)


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterFacts:
    """One footer. ``null_counts``: per leaf of the layout, None where a row group does not say.

    ``legacy_datetime`` and ``legacy_int96``: dates and int64 timestamps, or INT96 timestamps, were written in the
    hybrid calendar by Spark's rule (``parquet_schema.calendars``).
    """

    location: str
    num_rows: int
    layout: FooterLayout
    null_counts: tuple[int | None, ...]
    legacy_datetime: bool
    legacy_int96: bool
    created_by: str | None
    key_values: Mapping[bytes, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Footers:
    """Many footers. ``files`` has FOOTER_SCHEMA, one row per location in the order asked; its ``layout`` column
    counts in ``layouts``.
    """

    files: pa.RecordBatch
    layouts: tuple[FooterLayout, ...]


@dataclass(slots=True)
class _Layouts:
    """The distinct layouts met so far."""

    numbers: dict[Any, int] = field(default_factory=dict)
    layouts: list[FooterLayout] = field(default_factory=list)

    def number(self, schema: Any) -> int:
        arrow = schema.to_arrow_schema()
        paths = tuple((column.path, column.physical_type) for column in map(schema.column, range(len(schema))))
        key = (arrow.remove_metadata().serialize().to_pybytes(), paths)
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = len(self.layouts)
            self.layouts.append(_layout(schema, arrow))
        return found


def footer_facts(storage: Storage, location: str) -> FooterFacts:
    """Read one footer. Raises DataFileError naming the file."""
    metadata = _read(storage, location)
    with parquet_errors(location):
        layouts = _Layouts()
        layouts.number(metadata.schema)
        datetime, int96 = calendars(metadata.metadata or {})
        return FooterFacts(
            location=location,
            num_rows=metadata.num_rows,
            layout=layouts.layouts[0],
            null_counts=tuple(_null_counts(metadata)),
            legacy_datetime=datetime is not None,
            legacy_int96=int96 is not None,
            created_by=metadata.created_by,
            key_values=metadata.metadata or {},
        )


def read_footers(storage: Storage, locations: Sequence[str], *, threads: int | None = None) -> Footers:
    """Read many footers. Raises DataFileError naming the first file that cannot be read.

    ``threads``: how many at once; by default several for object stores, where waiting is what takes time.
    """
    layouts = _Layouts()
    if threads is None:
        threads = 16 if locations and not storage.resolve(locations[0]).startswith("/") else 1
    columns: dict[str, list[Any]] = {name: [] for name in FOOTER_SCHEMA.names}
    for location, metadata in zip(locations, _read_all(storage, locations, threads), strict=True):
        with parquet_errors(location):
            datetime, int96 = calendars(metadata.metadata or {})
            row = (
                location,
                metadata.num_rows,
                layouts.number(metadata.schema),
                _null_counts(metadata),
                datetime is not None,
                int96 is not None,
                metadata.created_by,
            )
        for name, value in zip(FOOTER_SCHEMA.names, row, strict=True):
            columns[name].append(value)
    return Footers(files=pa.RecordBatch.from_pydict(columns, FOOTER_SCHEMA), layouts=tuple(layouts.layouts))


def _read_all(storage: Storage, locations: Sequence[str], threads: int) -> Iterable[pq.FileMetaData]:
    if threads <= 1 or len(locations) < 2:
        yield from (_read(storage, location) for location in locations)
        return
    window = 64 * threads
    with ThreadPoolExecutor(max_workers=threads) as pool:
        for start in range(0, len(locations), window):
            yield from pool.map(lambda location: _read(storage, location), locations[start : start + window])


def _read(storage: Storage, location: str) -> pq.FileMetaData:
    with storage.open(location) as file, parquet_errors(location):
        metadata = pq.read_metadata(file)
        row_counts(metadata)
        return metadata


def _null_counts(metadata: Any) -> list[int | None]:
    totals: list[int | None] = [0] * metadata.num_columns
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        for leaf, total in enumerate(totals):
            statistics = group.column(leaf).statistics
            known = total is not None and statistics is not None and statistics.has_null_count
            totals[leaf] = total + statistics.null_count if known and total is not None else None
    return totals


def _layout(schema: Any, arrow: pa.Schema) -> FooterLayout:
    fields = file_fields(arrow)
    if (fields[-1].last_leaf if fields else 0) != len(schema):
        raise DataFileError(f"Cannot read the file: its schema has {len(schema)} columns that do not form a tree")
    leaves: list[Leaf] = []
    for top in fields:
        _collect(top, (top.name,), False, schema, leaves)
    return FooterLayout(
        fields=fields,
        leaves=tuple(leaves),
        two_level_lists=two_level_lists(fields, schema),
        has_field_ids=has_field_ids(fields),
    )


def _collect(node: FileField, path: tuple[str, ...], repeated: bool, schema: Any, leaves: list[Leaf]) -> None:
    if not node.children:
        leaves.append(
            Leaf(
                path=path,
                type=node.type,
                field_id=node.field_id,
                physical_type=schema.column(node.first_leaf).physical_type,
                repeated=repeated,
            )
        )
        return
    names = tuple(child.name for child in node.children)
    if pt.is_map(node.type):
        names = ("key", "value")
    elif is_list(node.type):
        names = ("element",)
    below = repeated or not pt.is_struct(node.type)
    for child, name in zip(node.children, names, strict=True):
        _collect(child, (*path, name), below, schema, leaves)
