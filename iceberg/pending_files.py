"""The files that a commit writes before it is decided, so that those left over can be deleted."""

from __future__ import annotations

from deltaberg.errors import DeltabergError
from deltaberg.storage import Storage


class PendingFiles:
    """Locations written on behalf of one transaction."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._locations: dict[str, None] = {}

    def note(self, location: str) -> str:
        """Remember a location that is about to be written."""
        self._locations[location] = None
        return location

    def delete_except(self, kept: frozenset[str]) -> None:
        """Delete the files that the committed table does not use. One that cannot be deleted stays as an orphan,
        without harm.
        """
        for location in list(self._locations):
            if location not in kept:
                try:
                    self.storage.delete(location)
                except DeltabergError:
                    continue
                del self._locations[location]
