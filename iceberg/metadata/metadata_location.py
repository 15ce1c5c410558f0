"""Where a table's metadata files are and which one is current (sections "File System Tables", "Metastore Tables").

Names: ``v<N>.metadata.json`` of file system tables, ``<N>-<uuid>.metadata.json`` of catalogs, gzipped ones with
``.gz.metadata.json`` or ``.metadata.json.gz``. ``version-hint.text`` holds a version or a name's stem and may be
stale or absent.

Where the names do not decide, only the metadata logs can: each commit appends the file it started from to
``metadata-log`` (section "Table Metadata Fields"), so a file whose log names another one of the same table is newer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deltaberg.iceberg.errors import AmbiguousMetadata, CorruptMetadata, NotAnIcebergTable
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.metadata.table_metadata_json import read_metadata
from deltaberg.storage import NotFound, Storage

METADATA_FOLDER = "metadata"
VERSION_HINT = "version-hint.text"
_SUFFIX = r"(?P<suffix>\.metadata\.json|\.gz\.metadata\.json|\.metadata\.json\.gz)"
_FILE_SYSTEM = re.compile(r"v(?P<version>[0-9]{1,18})" + _SUFFIX)
_CATALOG = re.compile(r"(?P<version>[0-9]{1,18})-(?P<rest>.+?)" + _SUFFIX)
_UUID_ONLY = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}" + _SUFFIX)
_METADATA_FILE = re.compile(r".+" + _SUFFIX)
_SUFFIXES = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")
_MAX_HINT_BYTES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataName:
    """The parts of a metadata file's name."""

    name: str
    version: int
    from_catalog: bool

    @classmethod
    def parse(cls, name: str) -> MetadataName | None:
        """None for a name that neither scheme writes (a temporary ``<uuid>.metadata.json`` too)."""
        if match := _FILE_SYSTEM.fullmatch(name):
            return cls(name=name, version=int(match["version"]), from_catalog=False)
        if _UUID_ONLY.fullmatch(name):
            return None
        if match := _CATALOG.fullmatch(name):
            return cls(name=name, version=int(match["version"]), from_catalog=True)
        return None


def is_metadata_file(location: str) -> bool:
    """True for a location that names a metadata file rather than a table's folder."""
    return _METADATA_FILE.fullmatch(location.rpartition("/")[2]) is not None


def file_system_metadata_name(version: int, *, gzip: bool = False) -> str:
    """The name under which a file system table commits a version."""
    return f"v{version}{'.gz' if gzip else ''}.metadata.json"


def catalog_metadata_name(version: int, uuid: str, *, gzip: bool = False) -> str:
    """The name of a metadata file to which a catalog's pointer is swapped."""
    return f"{version:05d}-{uuid}{'.gz' if gzip else ''}.metadata.json"


def join_location(folder: str, name: str) -> str:
    """A file's location in a folder whose own location may end in a slash."""
    return f"{folder.rstrip('/')}/{name}" if folder.rstrip("/") else f"/{name}"


def read_version_hint(storage: Storage, folder: str) -> str | None:
    """The text of a metadata folder's version hint; None when it is absent or has no meaning."""
    try:
        data = storage.get(join_location(folder, VERSION_HINT))
    except NotFound:
        return None
    text = data[:_MAX_HINT_BYTES].decode("utf-8", "replace").strip()
    return text if text and "/" not in text and len(data) <= _MAX_HINT_BYTES else None


def find_metadata(storage: Storage, folder: str) -> str:
    """The location of the current metadata file of the table in a folder.

    Of versioned names the highest is current, since each was committed on top of the one before; of a catalog's names
    the highest, unless another line of commits may have taken its place. A hint that spells out a file settles which of
    several files of its number counts, but it may be stale.

    Raises NotAnIcebergTable when there is none, CorruptMetadata when a newer file than those present must have existed,
    AmbiguousMetadata when several could be current and their metadata does not prove which is.
    """
    for metadata_folder in (join_location(folder, METADATA_FOLDER), folder):
        # The hint follows the file it names: read before the listing, it cannot be ahead of it while others commit.
        hint = read_version_hint(storage, metadata_folder)
        names = _metadata_names(storage, metadata_folder)
        if names:
            break
    known = [parsed for parsed in map(MetadataName.parse, names) if parsed is not None]
    heads = [name for from_catalog in (False, True) for name in _highest(known, from_catalog)]
    if hint is not None and not hint.isdecimal():
        hinted = [f"{hint}{suffix}" for suffix in _SUFFIXES if f"{hint}{suffix}" in names]
        if len(hinted) == 1:
            heads = [*hinted, *(name for name in heads if not _share_number(name, hinted[0]))]
    if not heads:
        found = f", only {names[0]}: name that file itself" if names else ""
        raise NotAnIcebergTable(
            f"Cannot open {folder} as an Iceberg table: no metadata file v<N>.metadata.json or "
            f"<N>-<uuid>.metadata.json was found{found}",
            path=folder,
        )
    newest = max((item.version for item in known if not item.from_catalog), default=None)
    if hint is not None and hint.isdecimal() and newest is not None and int(hint) > newest:
        raise CorruptMetadata(
            f"Cannot open {folder}: {VERSION_HINT} says version {hint} and the newest metadata file is of version "
            f"{newest}; the newer file is missing",
            path=join_location(metadata_folder, VERSION_HINT),
        )
    files = _MetadataFiles(storage, metadata_folder, frozenset(names))
    current = heads[0] if len(heads) == 1 else files.last(heads)
    files.require_no_later_line(current, known)
    return join_location(metadata_folder, current)


def _metadata_names(storage: Storage, folder: str) -> list[str]:
    """The names of metadata files directly in a folder."""
    names = (info.location.rpartition("/")[2] for info in storage.list(folder))
    return [name for name in names if _METADATA_FILE.fullmatch(name)]


def _highest(known: Sequence[MetadataName], from_catalog: bool) -> list[str]:
    """The names with the highest version of one scheme."""
    scheme = [item for item in known if item.from_catalog is from_catalog]
    highest = max((item.version for item in scheme), default=0)
    return [item.name for item in scheme if item.version == highest]


def _share_number(name: str, other: str) -> bool:
    """Whether two files have one number, of which only one can have been committed, or are one file."""
    one, two = MetadataName.parse(name), MetadataName.parse(other)
    if one is None or two is None:
        return name == other
    return (one.version, one.from_catalog) == (two.version, two.from_catalog)


class _MetadataFiles:
    """The metadata files of one folder, each read once at most and only where their names leave a doubt."""

    __slots__ = ("_folder", "_names", "_read", "_storage")

    def __init__(self, storage: Storage, folder: str, names: frozenset[str]) -> None:
        self._storage, self._folder, self._names = storage, folder, names
        self._read: dict[str, TableMetadata] = {}

    def last(self, heads: Sequence[str]) -> str:
        """The one that follows all others. Raises AmbiguousMetadata."""
        last = [head for head in heads if all(other == head or self._follows(head, other) for other in heads)]
        if len(last) != 1:
            raise self._ambiguous(heads)
        return last[0]

    def require_no_later_line(self, current: str, known: Sequence[MetadataName]) -> None:
        """Raise AmbiguousMetadata where a file of another line of a catalog's commits is later than ``current``.

        Two files of one number are of two lines: a commit that lost a race left its file, or the table was dropped or
        rolled back in its catalog and went on from a lower number. Only the former cannot be later.
        """
        numbers = Counter(item.version for item in known if item.from_catalog)
        doubtful = [item for item in known if item.from_catalog and numbers[item.version] > 1 and item.name != current]
        if not doubtful or not any(item.name == current and item.from_catalog for item in known):
            return
        logged = set(self._log(current))
        latest = self._metadata(current).last_updated_ms
        for item in sorted(doubtful, key=lambda item: item.version, reverse=True):
            if item.name in logged:
                continue
            if self._metadata(item.name).last_updated_ms > latest:
                raise self._ambiguous((current, item.name))
            logged.update(self._log(item.name))

    def _follows(self, later: str, earlier: str) -> bool:
        uuids = {(self._metadata(name).table_uuid or "").lower() for name in (later, earlier)} - {""}
        return len(uuids) < 2 and any(earlier == name for name in self._predecessors(later))

    def _predecessors(self, name: str) -> Iterator[str]:
        """The names in a file's log, then in the log of the oldest of them that is there, since logs are cut."""
        read: set[str] = set()
        at: str | None = name
        while at is not None and at not in read:
            read.add(at)
            log = self._log(at)
            yield from log
            at = next((each for each in log if each in self._names), None)

    def _log(self, name: str) -> list[str]:
        return [entry.metadata_file.rpartition("/")[2] for entry in self._metadata(name).metadata_log]

    def _metadata(self, name: str) -> TableMetadata:
        if name not in self._read:
            location = join_location(self._folder, name)
            self._read[name] = read_metadata(self._storage.get(location), table_location=self._folder, path=location)
        return self._read[name]

    def _ambiguous(self, names: Sequence[str]) -> AmbiguousMetadata:
        return AmbiguousMetadata(
            f"Cannot tell which metadata file of {self._folder} is current: {' or '.join(sorted(names))} (a catalog may "
            "have committed one of them, and none is known to follow the others); open the table by the path of the "
            "file that its catalog names",
            path=self._folder,
        )
