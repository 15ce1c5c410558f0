"""Files by location, local or in any object store."""

from deltaberg.storage.errors import (
    AlreadyExists,
    ConditionIgnored,
    LocationRefused,
    NotDurable,
    NotFound,
    OutsideTarget,
    PermissionDenied,
    StorageError,
    UnusableLocation,
)
from deltaberg.storage.guarded_storage import GuardedStorage, guarded
from deltaberg.storage.location import absolute_location, canonical_location, refuse_credentials
from deltaberg.storage.object_storage import open_storage
from deltaberg.storage.process_mark import is_dead, process_mark
from deltaberg.storage.protocol import FileInfo, Storage

__all__ = [
    "AlreadyExists",
    "ConditionIgnored",
    "FileInfo",
    "GuardedStorage",
    "LocationRefused",
    "NotDurable",
    "NotFound",
    "OutsideTarget",
    "PermissionDenied",
    "Storage",
    "StorageError",
    "UnusableLocation",
    "absolute_location",
    "canonical_location",
    "guarded",
    "is_dead",
    "open_storage",
    "process_mark",
    "refuse_credentials",
]
