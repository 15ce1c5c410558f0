"""A Delta target that was being created in parts when its conversion died: continued, or deleted."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Final

from deltaberg.delta.commit.distributed_create import FIRST_VERSION, creation_lock_of, recover
from deltaberg.delta.log.log_path import commit_name, log_folder
from deltaberg.migrate.target.locations import join
from deltaberg.migrate.target.watermark import Watermark
from deltaberg.migrate.to_delta.entries import HIDDEN_FOLDER
from deltaberg.storage import Storage, StorageError

VECTORS_FOLDER: Final = "vectors-"
"""The prefix of folders that hold the deletion vectors of such a creation."""


def creation_lock_text(watermark: Watermark, options_text: str) -> str:
    """The lock text that identifies the conversion that creates a table; equal when the conversion is run again."""
    return json.dumps({"position": watermark.to_json(), "options": options_text}, separators=(",", ":"), sort_keys=True)


def clear_interrupted_create(storage: Storage, root: str, watermark: Watermark, options_text: str) -> None:
    """Roll back what this conversion left in a folder when it died; a table that it had finished stays.

    Raises DeltaConflict where another conversion has begun one, which may still be at work.
    """
    if creation_lock_of(storage, root) is None:
        return
    recover(storage, root, creation_lock=creation_lock_text(watermark, options_text))
    if storage.exists(f"{log_folder(root)}/{commit_name(FIRST_VERSION)}"):
        return
    folder = join(root, HIDDEN_FOLDER)
    start = len(folder) + 1
    with suppress(StorageError):
        for file in list(storage.list(folder, recursive=True)):
            if file.location[start:].startswith(VECTORS_FOLDER):
                storage.delete(file.location)
