"""Layouts that an earlier run read from footers, kept in the user's cache folder.

A file is known again by its place and size, and by the time of its last change where the file system gives it at no
cost. The folder is optional: a layout that is missing or damaged there is read from the file again.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from deltaberg.datafile import FileField
from deltaberg.datafile.hybrid_calendar import HybridCalendar
from deltaberg.migrate.files.file_layout import UNREADABLE, FileLayout, SeenFile
from deltaberg.storage import Storage, StorageError, open_storage

FOLDER_VARIABLE: Final = "DELTABERG_FOOTER_CACHE"
"""The folder to use; ``off`` for none."""

_FORMAT: Final = "deltaberg-footers-1"
_DIGEST: Final = 32
_COLUMNS: Final = pa.schema(
    [
        ("location", pa.string()),
        ("size", pa.int64()),
        ("modified_ms", pa.int64()),
        ("rows", pa.int64()),
        ("facts", pa.int32()),
    ]
)

Key = tuple[str, int, int]


def cache_folder(environment: Mapping[str, str]) -> str | None:
    """Where to keep what footers showed; None where the user wants none of it or has no home."""
    chosen = environment.get(FOLDER_VARIABLE, "")
    if chosen:
        return None if chosen.lower() in ("off", "0", "none", "no") else os.path.abspath(chosen)
    base = environment.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        home = environment.get("HOME", "")
        if not os.path.isabs(home):
            return None
        base = os.path.join(home, ".cache")
    return os.path.join(base, "deltaberg", "footers")


@dataclass(slots=True, kw_only=True)
class FooterMemory:
    """The memory of one table. path: of its file in the cache folder."""

    storage: Storage
    path: str
    _known: dict[Key, tuple[int, int]] | None = None
    _used: dict[Key, tuple[int, int]] = field(default_factory=dict)
    _facts: list[FileLayout] = field(default_factory=list)
    _places: dict[FileLayout, int] = field(default_factory=dict)
    _keys: dict[str, Key] = field(default_factory=dict)
    _last: tuple[FileLayout, int] | None = None
    _learnt: bool = False

    @classmethod
    def of(cls, storage: Storage, root: str, environment: Mapping[str, str] | None = None) -> FooterMemory | None:
        """The memory of the table at ``root``; None where there is no cache folder."""
        folder = cache_folder(os.environ if environment is None else environment)
        if folder is None:
            return None
        name = hashlib.sha256(storage.resolve(root).rstrip("/").encode()).hexdigest()[:32]
        return cls(storage=storage, path=os.path.join(folder, f"{name}.arrow"))

    def recall(self, locations: Sequence[str], sizes: Sequence[int | None]) -> list[SeenFile | None]:
        """The layout that is remembered of each file; None where its footer has to be read. sizes: as the metadata
        states them.
        """
        if self._known is None:
            self._known = self._load()
        found: list[SeenFile | None] = []
        places = self.storage.resolve_many(pa.array(locations, pa.string())).to_pylist()
        for location, place, size in zip(locations, places, sizes, strict=True):
            key = self._key(location, place, size)
            entry = None if key is None else self._known.get(key)
            if key is not None:
                self._keys[location] = key
            if key is None or entry is None:
                found.append(None)
                continue
            self._used[key] = entry
            found.append(SeenFile(layout=self._facts[entry[1]], rows=entry[0]))
        return found

    def learn(self, seen: Mapping[str, SeenFile]) -> None:
        """Remember files that ``recall`` did not know."""
        for location, file in seen.items():
            key = self._keys.pop(location, None)
            if key is not None and file.trouble is None and file.rows is not None and file.layout is not UNREADABLE:
                self._used[key] = file.rows, self._place(file.layout)
                self._learnt = True

    def save(self) -> None:
        """Keep the layouts that were used or read; a folder that cannot be written to is no error."""
        if not self._learnt:
            return
        with suppress(StorageError):
            open_storage().put(self.path, self._to_bytes())
            self._learnt = False

    def _key(self, location: str, place: str, size: int | None) -> Key | None:
        if not place.startswith("/"):
            return None if size is None else (place, size, 0)
        try:
            info = self.storage.head(location)
        except StorageError:
            return None
        return place, info.size, info.modified_ms

    def _place(self, layout: FileLayout) -> int:
        if self._last is not None and self._last[0] is layout:
            return self._last[1]
        place = self._places.get(layout)
        if place is None:
            place = self._places[layout] = len(self._facts)
            self._facts.append(layout)
        self._last = layout, place
        return place

    def _to_bytes(self) -> bytes:
        keys, values = list(self._used), list(self._used.values())
        columns = [
            *([key[place] for key in keys] for place in range(3)),
            *([value[place] for value in values] for place in range(2)),
        ]
        layout = json.dumps({"format": _FORMAT, "facts": [_facts_json(each) for each in self._facts]})
        schema = _COLUMNS.with_metadata({b"deltaberg": layout.encode()})
        table = pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_table(table)
        data = bytes(sink.getvalue().to_pybytes())
        return hashlib.sha256(data).digest() + data

    def _load(self) -> dict[Key, tuple[int, int]]:
        """The content of the file; empty where it is missing, damaged or of another version."""
        try:
            stored = open_storage().get(self.path)
            data = stored[_DIGEST:]
            if hashlib.sha256(data).digest() != stored[:_DIGEST]:
                return {}
            table = pa.ipc.open_stream(data).read_all()
            document = json.loads(table.schema.metadata[b"deltaberg"])
            if document["format"] != _FORMAT or table.schema.remove_metadata() != _COLUMNS:
                return {}
            layout = [_facts_of(each) for each in document["facts"]]
            columns = [column.to_pylist() for column in table.columns]
            known = {
                (location, size, modified): (rows, place)
                for location, size, modified, rows, place in zip(*columns, strict=True)
                if 0 <= place < len(layout)
            }
        except (StorageError, pa.ArrowException, ValueError, TypeError, LookupError):
            return {}
        for each in layout:
            self._place(each)
        return known if len(self._facts) == len(layout) else {}


def _facts_json(layout: FileLayout) -> dict[str, Any]:
    return {
        "format": layout.format,
        "fields": None if layout.fields is None else [_field_json(each) for each in layout.fields],
        "int96": sorted(layout.int96),
        "two_level_lists": list(layout.two_level_lists),
        "unusual_maps": list(layout.unusual_maps),
    }


def _facts_of(value: dict[str, Any]) -> FileLayout:
    fields = value["fields"]
    return FileLayout(
        format=value["format"],
        fields=None if fields is None else tuple(_field_of(each) for each in fields),
        int96=frozenset(value["int96"]),
        two_level_lists=tuple(value["two_level_lists"]),
        unusual_maps=tuple(value["unusual_maps"]),
    )


def _field_json(each: FileField) -> dict[str, Any]:
    kind = pa.schema([pa.field("", each.type)]).serialize().to_pybytes()
    return {
        "name": each.name,
        "type": base64.b64encode(kind).decode(),
        "nullable": each.nullable,
        "field_id": each.field_id,
        "children": [_field_json(child) for child in each.children],
        "leaves": [each.first_leaf, each.last_leaf],
        "calendar": None if each.calendar is None else each.calendar.timezone,
    }


def _field_of(value: dict[str, Any]) -> FileField:
    kind = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(value["type"])))
    first, last = value["leaves"]
    return FileField(
        name=value["name"],
        type=kind.field(0).type,
        nullable=value["nullable"],
        field_id=value["field_id"],
        children=tuple(_field_of(child) for child in value["children"]),
        first_leaf=first,
        last_leaf=last,
        calendar=None if value["calendar"] is None else HybridCalendar(timezone=value["calendar"]),
    )
