"""Errors of data files."""

from __future__ import annotations

from deltaberg.errors import DeltabergError


class DataFileError(DeltabergError):
    """A data file is damaged or does not hold what the table declares; ``path`` names the file."""
