"""Files that a conversion left which died before it committed: found before a new one begins, deleted once it is done."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from deltaberg.migrate.delta_entries import HIDDEN_FOLDER
from deltaberg.migrate.locations import join
from deltaberg.migrate.source import TableFormat
from deltaberg.storage import Storage, StorageError

_OURS: Final = ("rewritten-", "staging-")
"""How the names begin of what only an unfinished conversion leaves where there is no table."""


def find_leftovers(storage: Storage, root: str, to: TableFormat) -> tuple[str, ...]:
    """Files in a target folder that holds no table yet.

    No table lists them. A conversion that still runs may, which is why they must be deleted only after a commit of
    one's own: the other one cannot commit any more then.
    """
    folder = join(root, HIDDEN_FOLDER if to is TableFormat.DELTA else "data")
    start = len(folder) + 1
    return tuple(
        file.location for file in storage.list(folder, recursive=True) if file.location[start:].startswith(_OURS)
    )


def delete_leftovers(storage: Storage, leftovers: Iterable[str]) -> None:
    """Delete them, with what dead writers left in their folders; what cannot be deleted is left."""
    folders = set()
    for location in leftovers:
        folders.add(location.rpartition("/")[0])
        with suppress(StorageError):
            storage.delete(location)
    for folder in sorted(folders, reverse=True):
        with suppress(StorageError):
            if folder.rpartition("/")[2].startswith(_OURS):
                storage.delete_unfinished(folder)
            storage.delete_folder(folder)
