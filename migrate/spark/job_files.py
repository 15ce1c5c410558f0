"""The files that the tasks of one job write beside a target's own: those of attempts that did not count are deleted."""

from __future__ import annotations

from contextlib import suppress

from deltaberg.migrate.target.locations import join
from deltaberg.migrate.target.undo_storage import UndoStorage
from deltaberg.storage import StorageError


class JobFiles:
    """Use as a context manager: at its end every file whose name begins with ``name`` and that was not kept is deleted.

    What was kept is recorded in ``storage``, which takes it back where the conversion fails.
    """

    def __init__(self, storage: UndoStorage) -> None:
        self.name = storage.run.new().hex
        self._storage = storage
        self._folders: list[str] = []
        self._kept: set[str] = set()

    def writes_to(self, *folders: str) -> None:
        """The folder in which tasks will write; missing folders are created, and deleted again if the job fails."""
        for folder in folders:
            self._storage.create_folders(join(folder, self.name))
            self._folders.append(folder)

    def keep(self, *locations: str) -> None:
        """Files that the target is going to use: deleted only where the conversion fails."""
        self._kept.update(locations)
        for location in locations:
            self._storage.adopt(location)

    def __enter__(self) -> JobFiles:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        for folder in dict.fromkeys(self._folders):
            with suppress(StorageError):
                for file in list(self._storage.list(folder)):
                    name = file.location.rpartition("/")[2]
                    if name.startswith(self.name) and file.location not in self._kept:
                        self._storage.delete(file.location)
                self._storage.delete_unfinished(folder)
