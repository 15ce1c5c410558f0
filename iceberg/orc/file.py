"""ORC data and delete files as Arrow batches (Appendix A, "ORC").

Arrow's reader decodes the columns. This module makes up for two limits of it: it turns every timestamp into
nanoseconds of 64 bits, which ends in the year 2262, and it addresses columns by dotted names, which are not unique.
So it reads a file whose footer is rewritten in memory: columns are named by their ids, and timestamps are declared as
the integers that their DATA streams hold (seconds); the SECONDARY streams (nanoseconds) are decoded here.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from deltaberg.datafile.errors import DataFileError
from deltaberg.iceberg.errors import UnsupportedIcebergFeature
from deltaberg.iceberg.orc.integers import decode_integers
from deltaberg.iceberg.orc.stripe_check import check_stripe
from deltaberg.iceberg.orc.tail import (
    OrcKind,
    OrcStream,
    OrcStripe,
    OrcTail,
    OrcType,
    StripeFooter,
    read_stream,
    read_stripe_footer,
    read_tail,
    rewritten_tail,
    type_message,
)
from deltaberg.storage.protocol import Storage

FIELD_ID_KEY = b"PARQUET:field_id"
"""Arrow's metadata key for a field id, for every file format."""

_TIMESTAMPS = frozenset({OrcKind.TIMESTAMP, OrcKind.TIMESTAMP_INSTANT})
_SIMPLE = {
    OrcKind.BOOLEAN: pa.bool_(),
    OrcKind.BYTE: pa.int8(),
    OrcKind.SHORT: pa.int16(),
    OrcKind.INT: pa.int32(),
    OrcKind.FLOAT: pa.float32(),
    OrcKind.DOUBLE: pa.float64(),
    OrcKind.STRING: pa.string(),
    OrcKind.VARCHAR: pa.string(),
    OrcKind.CHAR: pa.string(),
    OrcKind.DATE: pa.date32(),
}
_UTC_NAMES = frozenset({"UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z"})
# Seconds from 1970-01-01 to 2015-01-01, from which ORC counts.
_ORC_EPOCH = 1_420_070_400
# Of nanoseconds: the multiplier that each three-bit code stands for.
_POWERS_OF_TEN = np.array([1, *(10**n for n in range(2, 9))], dtype=np.int64)
_HIVE_DECIMAL_PRECISION = 38


class OrcFile:
    """One ORC file. ``schema`` has the file's names and types, and the field ids that its attributes give."""

    def __init__(self, storage: Storage, location: str) -> None:
        """Reads the tail. Raises DataFileError, UnsupportedIcebergFeature (unions), StorageError."""
        self.location = location
        self._file = storage.open(location)
        self._size = _size(self._file, location)
        self._tail = read_tail(self._file, self._size, location)
        self.schema = pa.schema([self._field(child, name) for child, name in self._columns()])
        self.row_count = self._tail.row_count

    def iter_batches(self, columns: Collection[int] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows in file order, one batch a stripe; ``columns`` are places in ``schema`` (None: all).

        The batches of a stripe without rows are left out. Raises DataFileError for every corruption.
        """
        wanted = range(len(self.schema)) if columns is None else sorted(set(columns))
        chosen = [self._tail.types[0].subtypes[place] for place in wanted]
        schema = pa.schema([self.schema.field(place) for place in wanted])
        reader = self._reader()
        total = 0
        for index, stripe in enumerate(self._tail.stripes):
            if stripe.row_count == 0:
                continue
            total += stripe.row_count
            if not chosen:
                yield _rows_without_columns(stripe.row_count)
                continue
            yield self._stripe(reader, index, stripe, chosen, schema)
        if total != self.row_count:
            raise self._corrupt(f"its stripes hold {total} rows, its footer says {self.row_count}")

    def close(self) -> None:
        self._file.close()

    def _columns(self) -> list[tuple[int, str]]:
        root = self._tail.types[0]
        return list(zip(root.subtypes, root.field_names, strict=True))

    def _reader(self) -> orc.ORCFile:
        types = tuple(_rewritten(column, node) for column, node in enumerate(self._tail.types))
        patched = _PatchedFile(self._file, self._tail.footer_offset, rewritten_tail(self._tail, types))
        try:
            return orc.ORCFile(pa.PythonFile(patched, mode="r"))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._corrupt(str(error)) from error

    def _stripe(
        self, reader: orc.ORCFile, index: int, stripe: OrcStripe, chosen: list[int], schema: pa.Schema
    ) -> pa.RecordBatch:
        footer = read_stripe_footer(self._file, self._tail, stripe, self.location)
        try:
            check_stripe(self._file, self._tail, stripe, footer, chosen, self.location)
            batch = reader.read_stripe(index, columns=[str(column) for column in chosen])
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._corrupt(f"stripe {index}: {error}") from error
        if batch.num_rows != stripe.row_count:
            raise self._corrupt(f"stripe {index} has {batch.num_rows} rows, the footer says {stripe.row_count}")
        assembly = _StripeColumns(self._file, self._tail, footer, self.location)
        try:
            arrays = [
                assembly.column(batch.column(str(column)), column, schema.field(place).type)
                for place, column in enumerate(chosen)
            ]
        except (pa.ArrowException, ValueError, KeyError) as error:
            raise self._corrupt(f"stripe {index}: {error}") from error
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _field(self, column: int, name: str) -> pa.Field:
        node = self._tail.types[column]
        field_id = node.attributes.get("iceberg.id")
        metadata = None
        if field_id is not None:
            if not field_id.isdecimal() or int(field_id) > 2**31 - 1:
                raise self._corrupt(f"attribute iceberg.id of column {name} is {field_id!r} (expected a field id)")
            metadata = {FIELD_ID_KEY: field_id.encode()}
        required = node.attributes.get("iceberg.required") == "true"
        return pa.field(name, self._type(node, name), nullable=not required, metadata=metadata)

    def _type(self, node: OrcType, name: str) -> pa.DataType:
        attributes = node.attributes
        match node.kind:
            case OrcKind.STRUCT:
                return pa.struct(
                    [self._field(child, text) for child, text in zip(node.subtypes, node.field_names, strict=True)]
                )
            case OrcKind.LIST:
                return pa.list_(self._field(node.subtypes[0], "element"))
            case OrcKind.MAP:
                key = self._field(node.subtypes[0], "key").with_nullable(False)
                return pa.map_(key, self._field(node.subtypes[1], "value"))
            case OrcKind.LONG:
                return pa.time64("us") if attributes.get("iceberg.long-type") == "TIME" else pa.int64()
            case OrcKind.TIMESTAMP | OrcKind.TIMESTAMP_INSTANT:
                unit = "ns" if attributes.get("iceberg.timestamp-unit") == "NANOS" else "us"
                return pa.timestamp(unit, tz="UTC" if node.kind is OrcKind.TIMESTAMP_INSTANT else None)
            case OrcKind.DECIMAL:
                return pa.decimal128(node.precision or _HIVE_DECIMAL_PRECISION, node.scale)
            case OrcKind.BINARY | OrcKind.GEOMETRY | OrcKind.GEOGRAPHY:
                return self._binary_type(attributes, name)
            case OrcKind.UNION:
                raise UnsupportedIcebergFeature(
                    f"Cannot read ORC file {self.location}: column {name} is a union, which Iceberg does not have",
                    path=self.location,
                    feature="orc union",
                )
            case kind:
                return _SIMPLE[kind]

    def _binary_type(self, attributes: dict[str, str], name: str) -> pa.DataType:
        match attributes.get("iceberg.binary-type"):
            case "UUID":
                return pa.binary(16)
            case "FIXED":
                length = attributes.get("iceberg.length", "")
                if not length.isdecimal() or not 0 < int(length) < 2**31:
                    raise self._corrupt(f"attribute iceberg.length of column {name} is {length!r} (expected a length)")
                return pa.binary(int(length))
            case _:
                return pa.binary()

    def _corrupt(self, reason: str) -> DataFileError:
        return DataFileError(f"Cannot read ORC file {self.location}: {reason}", path=self.location)


class _StripeColumns:
    """Turns the arrays that Arrow read from one stripe into those of the declared types."""

    def __init__(self, file: pa.NativeFile, tail: OrcTail, footer: StripeFooter, location: str) -> None:
        self._file, self._tail, self._footer, self._location = file, tail, footer, location

    def column(self, array: pa.Array, column: int, to: pa.DataType) -> pa.Array:
        node = self._tail.types[column]
        match node.kind:
            case OrcKind.STRUCT:
                children = [
                    self.column(array.field(place), child, to.field(place).type)
                    for place, child in enumerate(node.subtypes)
                ]
                return pa.Array.from_buffers(to, len(array), array.buffers()[:1], children=children)
            case OrcKind.LIST:
                items = self.column(array.values, node.subtypes[0], to.value_type)
                return pa.Array.from_buffers(to, len(array), array.buffers()[:2], children=[items])
            case OrcKind.MAP:
                keys = self.column(array.keys, node.subtypes[0], to.key_type)
                items = self.column(array.items, node.subtypes[1], to.item_type)
                entries = pa.StructArray.from_arrays([keys, items], fields=[to.key_field, to.item_field])
                return pa.Array.from_buffers(to, len(array), array.buffers()[:2], children=[entries])
            case OrcKind.TIMESTAMP | OrcKind.TIMESTAMP_INSTANT:
                return self._timestamps(array, column, to, instant=node.kind is OrcKind.TIMESTAMP_INSTANT)
            case _:
                return array if array.type == to else array.cast(to)

    def _timestamps(self, array: pa.Array, column: int, to: pa.TimestampType, *, instant: bool) -> pa.Array:
        valid = np.asarray(array.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
        seconds = np.zeros(len(array), dtype=np.int64)
        nanos = np.zeros(len(array), dtype=np.int64)
        seconds[valid] = array.drop_null().to_numpy()
        nanos[valid] = self._nanoseconds(column, int(valid.sum()))
        seconds = self._seconds(seconds, nanos, instant=instant)
        scale = 1_000_000 if to.unit == "us" else 1_000_000_000
        limit = (2**63 - 1) // scale - 1
        if len(seconds) and (int(seconds.max()) > limit or int(seconds.min()) < -limit):
            raise ValueError(f"a timestamp of column {column} is out of the range of {to}")
        values = seconds * scale + (nanos if to.unit == "ns" else nanos // 1000)
        return pa.array(values, mask=~valid).view(to)

    def _nanoseconds(self, column: int, count: int) -> npt.NDArray[np.int64]:
        place = self._footer.stream(column, OrcStream.SECONDARY)
        if place is None:
            if count:
                raise ValueError(f"timestamp column {column} has no SECONDARY stream")
            return np.zeros(0, dtype=np.int64)
        data = read_stream(self._file, self._tail, place, self._location)
        packed = decode_integers(data, count, signed=False, version_2=self._footer.encodings[column].run_length_v2)
        # The low three bits say how many trailing zeros (less one) were cut off.
        nanos: npt.NDArray[np.int64] = (packed >> 3) * _POWERS_OF_TEN[packed & 7]
        # The C++ writer leaves negative nanoseconds before 1970, with seconds rounded towards zero.
        if count and int(np.abs(nanos).max()) > 999_999_999:
            raise ValueError(f"timestamp column {column} has more than a second of nanoseconds")
        return nanos

    def _seconds(
        self, stored: npt.NDArray[np.int64], nanos: npt.NDArray[np.int64], *, instant: bool
    ) -> npt.NDArray[np.int64]:
        """Seconds since 1970: of the instant, or of the wall clock where the writer was."""
        zone = self._footer.writer_timezone
        if len(stored) and int(np.abs(stored).max()) > 1 << 55:
            raise ValueError("a timestamp is out of range")
        if instant or zone in _UTC_NAMES or not zone:
            return _whole_seconds(stored + _ORC_EPOCH, nanos)
        try:
            base = pc.assume_timezone(pa.scalar(_ORC_EPOCH, pa.timestamp("s")), zone).cast(pa.int64()).as_py()
            instants = pa.array(_whole_seconds(stored + base, nanos)).cast(pa.timestamp("s", tz=zone))
            local = pc.local_timestamp(instants)
        except (pa.ArrowException, ValueError) as error:
            raise ValueError(f"the writer's time zone {zone!r} is unknown here ({error})") from error
        return np.asarray(local.cast(pa.int64()).to_numpy(), dtype=np.int64)


def _whole_seconds(seconds: npt.NDArray[np.int64], nanos: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Writers round seconds before 1970 towards zero where there is a fraction of at least a millisecond."""
    return seconds - ((seconds < 0) & (nanos > 999_999))


class _PatchedFile(io.RawIOBase):
    """A file up to an offset, and other bytes from there on."""

    def __init__(self, file: pa.NativeFile, head_size: int, tail: bytes) -> None:
        super().__init__()
        self._file, self._head, self._tail = file, head_size, tail
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._head + len(self._tail)}[whence]
        self._at = start + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        end = self._head + len(self._tail)
        stop = end if size is None or size < 0 else min(end, self._at + size)
        parts = []
        if self._at < min(stop, self._head):
            parts.append(self._file.read_at(min(stop, self._head) - self._at, self._at))
        if stop > self._head:
            parts.append(self._tail[max(0, self._at - self._head) : stop - self._head])
        data = b"".join(parts)
        self._at += len(data)
        return data


def _rewritten(column: int, node: OrcType) -> bytes:
    """The type with children named by their ids, and a timestamp as the integers of its DATA stream."""
    kind = OrcKind.LONG if node.kind in _TIMESTAMPS else node.kind
    kind = OrcKind.BINARY if kind in {OrcKind.GEOMETRY, OrcKind.GEOGRAPHY} else kind
    kind = OrcKind.STRING if kind in {OrcKind.VARCHAR, OrcKind.CHAR} else kind
    names = tuple(str(child) for child in node.subtypes) if node.kind is OrcKind.STRUCT else ()
    return type_message(kind, node.subtypes, names, precision=node.precision, scale=node.scale)


def _size(file: pa.NativeFile, location: str) -> int:
    try:
        return int(file.size())
    except (pa.ArrowException, OSError) as error:
        raise DataFileError(f"Cannot read ORC file {location}: {error}", path=location) from error


def _rows_without_columns(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), count, [None]))
