"""A Delta table: the way to its versions."""

from __future__ import annotations

from deltaberg.delta.errors import NotADeltaTable
from deltaberg.delta.log_listing import find_segment
from deltaberg.delta.log_path import log_folder
from deltaberg.delta.snapshot import Snapshot
from deltaberg.errors import error_context
from deltaberg.storage.protocol import Storage


class DeltaTable:
    """A table by the location of its folder. Nothing of the log is read until a snapshot is asked for."""

    def __init__(self, location: str, storage: Storage) -> None:
        self.location = location.rstrip("/") or "/"
        self.storage = storage
        self.log_folder = log_folder(self.location)

    @staticmethod
    def open(location: str, storage: Storage) -> DeltaTable:
        """The table in a folder. Raises NotADeltaTable when the folder has no log."""
        table = DeltaTable(location, storage)
        if next(iter(storage.list(table.log_folder)), None) is None:
            raise NotADeltaTable(
                f"Cannot open {location}: no Delta log found (expected {table.log_folder})", table=location
            )
        return table

    def snapshot(self, version: int | None = None, as_of_ms: int | None = None) -> Snapshot:
        """The newest version, a version by number, or the newest one committed at or before a time.

        Raises VersionNotFound, CorruptLog and UnsupportedDeltaFeature.
        """
        with error_context(table=self.location):
            segment = find_segment(self.storage, self.log_folder, version=version)
            return Snapshot(self.storage, self.location, self.log_folder, segment)
