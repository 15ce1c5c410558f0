"""Where a table's metadata files are and which one is current (sections "File System Tables", "Metastore Tables").

Names: ``v<N>.metadata.json`` of file system tables, ``<N>-<uuid>.metadata.json`` of catalogs, gzipped ones with
``.gz.metadata.json`` or ``.metadata.json.gz``. ``version-hint.text`` holds a version or a name's stem and may be
stale or absent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from deltaberg.iceberg.errors import CorruptMetadata, IcebergError, NotAnIcebergTable
from deltaberg.iceberg.table_metadata_json import read_metadata
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
    """What the name of a metadata file says."""

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
    """The text of a metadata folder's version hint; None when it is absent or senseless."""
    try:
        data = storage.get(join_location(folder, VERSION_HINT))
    except NotFound:
        return None
    text = data[:_MAX_HINT_BYTES].decode("utf-8", "replace").strip()
    return text if text and "/" not in text and len(data) <= _MAX_HINT_BYTES else None


def find_metadata(storage: Storage, folder: str) -> str:
    """The location of the current metadata file of the table in a folder.

    Among versioned names the highest is current, since each was committed on top of the one before. A hint decides
    where it names a file of a catalog. Raises NotAnIcebergTable when there is none, CorruptMetadata when a newer file
    than those present must have existed, IcebergError when several could be current.
    """
    for metadata_folder in (join_location(folder, METADATA_FOLDER), folder):
        # The hint follows the file it names: read before the listing, it cannot be ahead of it while others commit.
        hint = read_version_hint(storage, metadata_folder)
        names = _metadata_names(storage, metadata_folder)
        if names:
            break
    known = [parsed for parsed in map(MetadataName.parse, names) if parsed is not None]
    if hint is not None and not hint.isdecimal():
        named = [f"{hint}{suffix}" for suffix in _SUFFIXES if f"{hint}{suffix}" in names]
        if len(named) == 1:
            return join_location(metadata_folder, named[0])
    if not known:
        found = f", only {names[0]}: name that file itself" if names else ""
        raise NotAnIcebergTable(
            f"Cannot open {folder} as an Iceberg table: no metadata file v<N>.metadata.json or "
            f"<N>-<uuid>.metadata.json was found{found}",
            path=folder,
        )
    versioned = [item for item in known if not item.from_catalog]
    if hint is not None and hint.isdecimal() and versioned:
        newest = max(item.version for item in versioned)
        if int(hint) > newest:
            raise CorruptMetadata(
                f"Cannot open {folder}: {VERSION_HINT} says version {hint} and the newest metadata file is of version "
                f"{newest}; the newer file is missing",
                path=join_location(metadata_folder, VERSION_HINT),
            )
        known = versioned
    return join_location(metadata_folder, _newest(storage, metadata_folder, known))


def _metadata_names(storage: Storage, folder: str) -> list[str]:
    """The names of metadata files directly in a folder."""
    names = (info.location.rpartition("/")[2] for info in storage.list(folder))
    return [name for name in names if _METADATA_FILE.fullmatch(name)]


def _newest(storage: Storage, folder: str, known: list[MetadataName]) -> str:
    """The newest of several metadata files: highest version of each scheme, ties settled by the metadata logs."""
    candidates: list[str] = []
    for from_catalog in (False, True):
        scheme = [item for item in known if item.from_catalog is from_catalog]
        if scheme:
            highest = max(item.version for item in scheme)
            candidates += [item.name for item in scheme if item.version == highest]
    if len(candidates) == 1:
        return candidates[0]
    logged: set[str] = set()
    for name in candidates:
        location = join_location(folder, name)
        metadata = read_metadata(storage.get(location), table_location=folder, path=location)
        logged.update(entry.metadata_file.rpartition("/")[2] for entry in metadata.metadata_log)
    unlogged = [name for name in candidates if name not in logged]
    if len(unlogged) != 1:
        raise IcebergError(
            f"Cannot tell which metadata file of {folder} is current: {', '.join(sorted(candidates))} could all be; "
            "open the table by the name of one",
            path=folder,
        )
    return unlogged[0]
