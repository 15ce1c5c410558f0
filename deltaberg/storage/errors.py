"""Errors of files and stores, in deltaberg's own terms."""

from __future__ import annotations

from deltaberg.errors import DeltabergError, Unsupported, UsageError


class StorageError(DeltabergError):
    """A file cannot be read or written; ``path`` names it."""


class UnusableLocation(StorageError):
    """A text that names no file: relative, of another host, or with characters that no path has."""


class NotFound(StorageError):
    """No such file."""


class AlreadyExists(StorageError):
    """put_if_absent found a file there."""


class PermissionDenied(StorageError):
    """The store refuses access."""


class NotDurable(StorageError):
    """put_if_absent wrote a whole file that others see, but could not have it put on disk."""


class NotSent(StorageError):
    """put_if_absent failed before it asked the store for anything that could write the file."""


class ConditionIgnored(NotSent):
    """The store replaces a file that put_if_absent must not touch: two writers would both believe that they had won."""


class LocationRefused(Unsupported):
    """A place that may not be read: in another store than the table's own, or with credentials in its URL (exit 3)."""


class OutsideTarget(UsageError):
    """A place that may not be written: not below the folder that was chosen (exit 2)."""
