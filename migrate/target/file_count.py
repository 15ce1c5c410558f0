"""The number of a table's live files, as far as its metadata states it without listing them."""

from __future__ import annotations

from typing import Final

from deltaberg.migrate.formats.reader_of import reader_of
from deltaberg.migrate.source import Source

DISTRIBUTE_FROM: Final = 200_000
"""With ``--engine spark``, the metadata of this many files is translated in tasks; fewer are done before a job has
started.
"""


def stated_files(source: Source) -> int:
    """About how many files the snapshot or version has; manifests and checkpoints without counts count as none."""
    return reader_of(source).stated_files()
