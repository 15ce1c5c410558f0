"""Files by location, local or in any object store."""

from deltaberg.storage.errors import (
    AlreadyExists,
    ConditionIgnored,
    NotDurable,
    NotFound,
    PermissionDenied,
    StorageError,
    UnusableLocation,
)
from deltaberg.storage.location import absolute_location, canonical_location
from deltaberg.storage.object_storage import open_storage
from deltaberg.storage.process_mark import is_dead, process_mark
from deltaberg.storage.protocol import FileInfo, Storage

__all__ = [
    "AlreadyExists",
    "ConditionIgnored",
    "FileInfo",
    "NotDurable",
    "NotFound",
    "PermissionDenied",
    "Storage",
    "StorageError",
    "UnusableLocation",
    "absolute_location",
    "canonical_location",
    "is_dead",
    "open_storage",
    "process_mark",
]
