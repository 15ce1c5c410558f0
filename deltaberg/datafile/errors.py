"""Errors of data files."""

from __future__ import annotations

from deltaberg.errors import DeltabergError


class DataFileError(DeltabergError):
    """A data file is damaged or contradicts the table's declarations; ``path`` names the file."""
