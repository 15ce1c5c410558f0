"""Evidence in a table's metadata of who wrote its files: the table's own writers, or others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.migrate.files.file_layout import FileLayout

Mask = npt.NDArray[np.bool_]

UUID_PATTERN: Final = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """The provenance of a batch of files.

    own: the metadata proves that the table's own writers wrote the file under the table's schema; only such a file may be
    described by the footer of another. groups: a text that own files of one writer and commit share. writers: one that
    all files of a writer share. exact: where a group is one commit for certain, not just files of the same time. doubts:
    why files are not ``own``, each file counted once.
    """

    own: Mask
    groups: pa.Array
    writers: pa.Array
    exact: Mask
    doubts: Mapping[str, int] = field(default_factory=dict)


class Contradicts(Protocol):
    """Whether the table's own writers would not have written a file with such columns."""

    def __call__(self, layout: FileLayout, /) -> bool: ...


def nothing_contradicts(layout: FileLayout) -> bool:
    """Where it is not known what the table's own writers write."""
    return False


class Doubts:
    """Takes files of a batch out of those that are proven to be the table's own, and counts why."""

    def __init__(self, files: int) -> None:
        self.own: Mask = np.ones(files, dtype=np.bool_)
        self.counts: dict[str, int] = {}

    def add(self, why: str, doubtful: Mask) -> None:
        """A reason to doubt some of the files; one that was doubted before is not counted again."""
        fresh = int((doubtful & self.own).sum())
        if fresh:
            self.counts[why] = self.counts.get(why, 0) + fresh
            self.own &= ~doubtful


def name_pattern(locations: pa.Array) -> pa.Array:
    """File names without what differs from file to file: digits and hexadecimal runs."""
    names = pc.replace_substring_regex(locations, r"^.*/", "")
    return pc.replace_substring_regex(names, r"[0-9a-fA-F]{2,}|[0-9]", "#")
