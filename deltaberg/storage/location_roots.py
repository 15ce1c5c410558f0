"""Folders under which many files lie, found column by column: a few folders for a table's worth of locations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NAMED: Final = 5
"""The number of folders that a message names."""

_KEPT: Final = 1000
_FEW: Final = 8
_SEGMENT: Final = r"/(?:[^/.][^/]*|\.[^/.][^/]*|\.\.[^/]+)/\.\.(/|$)"
_STORE: Final = r"(?s)^([a-zA-Z][a-zA-Z0-9+.\-]*://[^/]*).*"


def holds(texts: pa.Array, needle: bytes) -> bool:
    """Whether one or two bytes may stand in any text of a string array; False is certain.

    Arrow's own search takes ten times as long.
    """
    _, offsets, data = texts.buffers()
    if not len(texts) or data is None:
        return False
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    found = content[: len(content) + 1 - len(needle)] == needle[0]
    for place in range(1, len(needle)):
        found &= content[place : len(content) + 1 - len(needle) + place] == needle[place]
    return bool(found.any())


def normal_places(places: pa.Array) -> pa.Array:
    """Resolved locations, local ones without ``.``, ``..`` and empty segments, as the file system takes them."""
    if not (holds(places, b"//") or holds(places, b"/.") or pc.any(pc.ends_with(places, "/"), min_count=0).as_py()):
        return places
    odd = pc.match_substring_regex(places, r"(?s)^(?:/.*)?/\.{0,2}/|^(?:/.*)?/\.{0,2}$")
    if not pc.any(odd, min_count=0).as_py():
        return places
    found = pc.replace_substring_regex(places, r"/{2,}", "/")
    while pc.any(pc.match_substring_regex(found, r"/\.(/|$)"), min_count=0).as_py():
        found = pc.replace_substring_regex(found, r"/\.(/|$)", r"\1")
    while True:
        shorter = pc.replace_substring_regex(found, r"^(?:/\.\.)+(/|$)", r"/")
        shorter = pc.replace_substring_regex(shorter, _SEGMENT, r"\1")
        if shorter.equals(found):
            break
        found = shorter
    found = pc.replace_substring_regex(found, r"/+$", "")
    return pc.if_else(odd, pc.if_else(pc.equal(found, ""), "/", found), places)


@dataclass(slots=True, kw_only=True)
class Roots:
    """Folders and how many files are below each. own: the folder whose files are not counted, or ""; the folders are what
    differs first from it. more: files of folders that are too many to keep."""

    own: str = ""
    files: dict[str, int] = field(default_factory=dict)
    folders: dict[str, str] = field(default_factory=dict)
    more: int = 0

    @classmethod
    def of(cls, places: pa.Array) -> Roots:
        """The folders of all places."""
        found = cls()
        found.add(places)
        return found

    def add(self, places: pa.Array) -> None:
        """Count the files of an array of resolved locations; nulls and those below ``own`` are left out."""
        if places.null_count:
            places = places.drop_null()
        if self.own and len(places):
            below = self._below_own(places)
            if pc.all(below).as_py():
                return
            places = places.filter(pc.invert(below))
        if not len(places):
            return
        places = normal_places(places)
        if self.own:
            places = places.filter(pc.invert(self._below_own(places)))
        places = self._count_few(places)
        if not len(places):
            return
        folders = pc.replace_substring_regex(places, r"/[^/]*$", "")
        tops = self._tops(folders)
        grouped = pa.table({"top": tops, "folder": folders}).group_by("top")
        for row in grouped.aggregate([("folder", "min"), ("folder", "max"), ("folder", "count")]).to_pylist():
            self._count(row["top"], _shared(row["folder_min"], row["folder_max"]), row["folder_count"])

    def merge(self, other: Roots) -> None:
        """Add what another one of the same ``own`` has counted."""
        for top, folder in other.folders.items():
            self._count(top, folder, other.files[top])
        self.more += other.more

    @property
    def first(self) -> str:
        """The folder with the most files."""
        return self.named()[0][0]

    def named(self) -> list[tuple[str, int]]:
        """Folder and files of each, most files first."""
        counted = [(f"{self.folders[top].rstrip('/')}/", files) for top, files in self.files.items()]
        return sorted(counted, key=lambda each: (-each[1], each[0]))

    def text(self) -> str:
        """``12 files below s3://a/b/, 1 file below /etc/ and 3 more``."""
        named = self.named()
        shown = [f"{files} file{'' if files == 1 else 's'} below {folder}" for folder, files in named[:NAMED]]
        rest = len(named) - NAMED
        more = f" and {'more than ' * bool(self.more)}{rest} more folders" if rest > 0 else ""
        return ", ".join(shown) + more

    def _count(self, top: str, folder: str, files: int) -> None:
        known = self.folders.get(top)
        if known is None and len(self.folders) >= _KEPT:
            self.more += files
            return
        self.folders[top] = folder if known is None else _shared(known, folder)
        self.files[top] = self.files.get(top, 0) + files

    def _count_few(self, places: pa.Array) -> pa.Array:
        """Count the files of a few folders, which is the usual case, one folder after the other; returns the other
        files.
        """
        above = _above(self.own)
        for _ in range(_FEW):
            if not len(places):
                break
            first = places[0].as_py()
            folder = first.rpartition("/")[0]
            if folder in above:
                break  # beside files like this one, folders that differ stand in the same folder
            top = self._tops(pa.array([folder], pa.string()))[0].as_py()
            inside = pc.starts_with(places, f"{top}/")
            ends = pc.min_max(places.filter(inside)).as_py()
            shared = _shared(*(each.rpartition("/")[0] for each in (ends["min"], ends["max"])))
            self._count(top, shared, pc.sum(inside).as_py())
            places = places.filter(pc.invert(inside))
        return places

    def _below_own(self, places: pa.Array) -> pa.Array:
        plain = pc.starts_with(places, f"{self.own.rstrip('/')}/")
        if not holds(places, b"/."):
            return plain
        return pc.and_not(plain, pc.match_substring_regex(places, r"/\.{1,2}(?:/|$)"))

    def _tops(self, folders: pa.Array) -> pa.Array:
        """The shallowest folder of each that is not above ``own``; a store that ``own`` is not in counts as one."""
        tops = pc.replace_substring_regex(folders, _STORE, r"\1")
        local = pc.starts_with(folders, "/")
        tops = pc.if_else(local, pc.replace_substring_regex(folders, r"(?s)^(/[^/]*).*", r"\1"), tops)
        for above in _above(self.own):
            inside = pc.starts_with(folders, f"{above}/")
            if not pc.any(inside, min_count=0).as_py():
                break
            rest = pc.binary_replace_slice(folders.cast(pa.binary()), 0, len(above.encode()) + 1, b"")
            name = pc.replace_substring_regex(rest, r"(?s)/.*$", b"")
            deeper = pc.binary_join_element_wise(pa.scalar(f"{above}/".encode()), name, b"")
            # Where a place is not inside, the slice may cut a character; another row's value is taken there.
            tops = pc.if_else(inside, deeper, tops.cast(pa.binary())).cast(pa.string())
        return tops


def _above(folder: str) -> list[str]:
    """The store and the folders above a folder, outermost first, without slashes at their ends."""
    scheme, mark, rest = folder.partition("://")
    start, parts = (f"{scheme}://{rest.partition('/')[0]}", rest.partition("/")[2]) if mark else ("", folder[1:])
    found, names = [start], parts.split("/")
    for name in names[:-1]:
        found.append(f"{found[-1]}/{name}")
    return found


def _shared(one: str, other: str) -> str:
    """The deepest folder that holds both."""
    parts, others = one.split("/"), other.split("/")
    length = next(
        (at for at, (a, b) in enumerate(zip(parts, others, strict=False)) if a != b), min(len(parts), len(others))
    )
    return "/".join(parts[:length])
