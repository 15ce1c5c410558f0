"""Whether a source has moved on, by one listing: no commit, manifest or checkpoint is opened.

A look is taken *before* the source is opened for a sync, so that what is committed meanwhile shows at the next one.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltaberg.delta.log.log_path import LogFile, LogFileKind, log_folder, parse_log_file
from deltaberg.iceberg.metadata.metadata_location import METADATA_FOLDER, VERSION_HINT, is_metadata_file, join_location
from deltaberg.migrate.source import TableFormat
from deltaberg.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What tells one state of a source from the next: names of files, sizes and when they were put there.

    number: the version of the newest commit or metadata file, from which commits are counted; None where none was seen.
    moved_ms: when the newest file was put there, by the store's clock.
    """

    number: int | None
    files: tuple[tuple[str, int, int], ...]
    moved_ms: int

    def commits_since(self, earlier: Look) -> int:
        """How many commits are new: by versions in Delta, by metadata files in Iceberg. At least 1 where anything changed."""
        if self == earlier:
            return 0
        if self.number is not None and earlier.number is not None:
            return max(1, self.number - earlier.number)
        known = {name for name, _, _ in earlier.files}
        return max(1, sum(is_metadata_file(name) for name, _, _ in self.files if name not in known))


def look_at(storage: Storage, source: str, format: TableFormat, *, earlier: Look | None = None) -> Look:
    """What a table's folder, or a metadata file, looks like now. earlier: the last look, which spares most of a listing."""
    folder = source.rstrip("/") or source
    if format is TableFormat.DELTA:
        return _delta(storage, folder, earlier)
    if is_metadata_file(folder):
        file = storage.head(folder)
        return Look(number=None, files=((folder, file.size, file.modified_ms),), moved_ms=file.modified_ms)
    for place in (join_location(folder, METADATA_FOLDER), folder):
        # Manifests stand in the same folder and are not looked at.
        found = tuple(
            (name, file.size, file.modified_ms)
            for file in storage.list(place)
            if is_metadata_file(name := file.location.rpartition("/")[2]) or name == VERSION_HINT
        )
        if found:
            return Look(number=None, files=found, moved_ms=max(modified for _, _, modified in found))
    return Look(number=None, files=(), moved_ms=0)


def _delta(storage: Storage, folder: str, earlier: Look | None) -> Look:
    """The newest commit. The listing begins at the one that was the newest, so a log that was set back shows nothing."""
    after = None if earlier is None or earlier.number is None else f"{earlier.number:020}"
    newest: LogFile | None = None
    for file in storage.list(log_folder(folder), start_after=after):
        parsed = parse_log_file(file.location, size=file.size, modified_ms=file.modified_ms)
        if parsed is not None and parsed.kind is LogFileKind.COMMIT:
            newest = parsed
    if newest is None:
        return Look(number=None, files=(), moved_ms=0)
    return Look(
        number=newest.version,
        files=((newest.name, newest.size, newest.modified_ms),),
        moved_ms=newest.modified_ms,
    )
