"""The contents of Parquet footers, of one file or many, without reading any column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.datafile.file_schema import FileField, has_field_ids, is_list
from deltaberg.datafile.parquet.parquet import parquet_errors
from deltaberg.datafile.parquet.parquet_footer import UNKNOWN, ParquetFooter, SchemaNode, read_footer
from deltaberg.datafile.parquet.parquet_schema import calendars, parquet_fields
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

    numbers: dict[Any, int] = dataclass_field(default_factory=dict)
    layouts: list[FooterLayout] = dataclass_field(default_factory=list)

    def number(self, footer: ParquetFooter) -> int:
        arrow = footer.metadata.schema.to_arrow_schema()
        key = (arrow.remove_metadata().serialize().to_pybytes(), footer.schema)
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = len(self.layouts)
            self.layouts.append(_layout(footer, arrow))
        return found


def footer_facts(storage: Storage, location: str) -> FooterFacts:
    """Read one footer. Raises DataFileError naming the file."""
    footer = _read(storage, location)
    with parquet_errors(location):
        layouts = _Layouts()
        layouts.number(footer)
        datetime, int96 = calendars(footer.key_values)
        return FooterFacts(
            location=location,
            num_rows=footer.num_rows,
            layout=layouts.layouts[0],
            null_counts=tuple(_null_counts(footer)),
            legacy_datetime=datetime is not None,
            legacy_int96=int96 is not None,
            created_by=footer.created_by,
            key_values=footer.key_values,
        )


def read_footers(storage: Storage, locations: Sequence[str], *, threads: int | None = None) -> Footers:
    """Read many footers. Raises DataFileError naming the first file that cannot be read.

    ``threads``: how many at once; by default several for object stores, where waiting is what takes time.
    """
    layouts = _Layouts()
    if threads is None:
        threads = 16 if locations and not storage.resolve(locations[0]).startswith("/") else 1
    columns: dict[str, list[Any]] = {name: [] for name in FOOTER_SCHEMA.names}
    for location, footer in zip(locations, _read_all(storage, locations, threads), strict=True):
        with parquet_errors(location):
            datetime, int96 = calendars(footer.key_values)
            row = (
                location,
                footer.num_rows,
                layouts.number(footer),
                _null_counts(footer),
                datetime is not None,
                int96 is not None,
                footer.created_by,
            )
        for name, value in zip(FOOTER_SCHEMA.names, row, strict=True):
            columns[name].append(value)
    return Footers(files=pa.RecordBatch.from_pydict(columns, FOOTER_SCHEMA), layouts=tuple(layouts.layouts))


def _read_all(storage: Storage, locations: Sequence[str], threads: int) -> Iterable[ParquetFooter]:
    if threads <= 1 or len(locations) < 2:
        yield from (_read(storage, location) for location in locations)
        return
    window = 64 * threads
    with ThreadPoolExecutor(max_workers=threads) as pool:
        for start in range(0, len(locations), window):
            yield from pool.map(lambda location: _read(storage, location), locations[start : start + window])


def _read(storage: Storage, location: str) -> ParquetFooter:
    with storage.open(location) as file, parquet_errors(location):
        return read_footer(file)


def _null_counts(footer: ParquetFooter) -> list[int | None]:
    unknown = (footer.null_counts == UNKNOWN).any(axis=0).tolist()
    totals = footer.null_counts.sum(axis=0).tolist()
    return [None if missing else total for total, missing in zip(totals, unknown, strict=True)]


def _layout(footer: ParquetFooter, arrow: pa.Schema) -> FooterLayout:
    fields = parquet_fields(footer, arrow, rebase_calendar=False)
    nodes = tuple(footer.schema.leaves())
    leaves: list[Leaf] = []
    for top in fields:
        _collect(top, (top.name,), nodes, leaves)
    return FooterLayout(
        fields=fields,
        leaves=tuple(leaves),
        two_level_lists=tuple(footer.schema.two_level_lists()),
        has_field_ids=has_field_ids(fields),
    )


def _collect(
    field: FileField, path: tuple[str, ...], nodes: Sequence[tuple[SchemaNode, bool]], leaves: list[Leaf]
) -> None:
    if not field.children:
        node, repeated = nodes[field.first_leaf]
        leaves.append(
            Leaf(
                path=path,
                type=field.type,
                field_id=field.field_id,
                physical_type=node.physical_type or "",
                repeated=repeated,
            )
        )
        return
    names = tuple(child.name for child in field.children)
    if pt.is_map(field.type):
        names = ("key", "value")
    elif is_list(field.type):
        names = ("element",)
    for child, name in zip(field.children, names, strict=True):
        _collect(child, (*path, name), nodes, leaves)
