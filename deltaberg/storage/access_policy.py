"""Which places may be read and written on behalf of a table.

A table's metadata names files, and a writer of the metadata could name any file of the machine or any bucket that the
user's credentials open. So files are read in the stores that the user named (a bucket, a container, a host, or the
local file system, each by the location that was typed), and below prefixes that the user allowed or relocated to; files
are written below folders that were chosen as a target.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.redaction import QUERY_PATTERN, has_secret
from deltaberg.storage.errors import LocationRefused, OutsideTarget
from deltaberg.storage.location import absolute_location, canonical_location, scheme_of
from deltaberg.storage.location_roots import Roots, holds, normal_places
from deltaberg.storage.store_name import root_and_key

LOCAL: Final = ""
"""The store of local paths."""

_ALIASES: Final = (("abfs", "abfss"), ("az", "azure"))
_HOW: Final = "name them with --allow-location PREFIX (allow_locations=) if they belong to the table, or relocate them"


def allowed_prefixes(locations: Iterable[str]) -> tuple[str, ...]:
    """A location given as ``--allow-location``. Raises UsageError for a secret, StorageError for a text that is no
    location.
    """
    return tuple(_without_slash(canonical_location(absolute_location(each))) for each in locations)


def store_of(place: str) -> str:
    """The store of a resolved location: LOCAL, or a URL without a slash at its end. Raises StorageError for no host."""
    return LOCAL if place.startswith("/") else root_and_key(place)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessPolicy:
    """Places are resolved locations: relocated, local paths without a scheme.

    stores: as ``store_of`` gives them. allowed: prefixes of whole segments, below which files may be read wherever they
    are. targets: folders below which files may be written; None where writing is not restricted yet.
    """

    stores: frozenset[str]
    allowed: tuple[str, ...] = ()
    targets: tuple[str, ...] | None = None

    def with_stores_of(self, places: Iterable[str]) -> AccessPolicy:
        """The policy that also reads the stores of these places, which the user named."""
        return replace(self, stores=self.stores | {store_of(place) for place in places})

    def writing(self, *folders: str) -> AccessPolicy:
        """The policy that writes below these folders, which the user chose, and nowhere else."""
        return replace(self, targets=tuple(map(_without_slash, folders)))

    def allows(self, place: str) -> bool:
        """Whether a place is below a prefix that the user named."""
        return any(_inside(_normal(place), prefix) for prefix in self.allowed)

    def reads(self, place: str) -> bool:
        """Whether a place may be read."""
        local = place.startswith("/")
        if not local and has_secret(place):
            return False
        return self._in_own_store(place, local=local) or self.allows(place)

    def require_readable(self, place: str) -> None:
        """Raise LocationRefused for a place that may not be read."""
        if not self.reads(place):
            self.require_all_readable(pa.array([place], pa.string()))

    def require_all_readable(self, places: pa.Array) -> None:
        """``require_readable`` for a string array, column-wise; the message names the places' folders."""
        local = pc.starts_with(places, "/")
        every_local = cast(bool, pc.all(local, min_count=0).as_py())
        if every_local and LOCAL in self.stores:
            return
        if not every_local:
            self._refuse_secrets(places)
        own = local if LOCAL in self.stores else pc.and_(local, False)
        for store in self._spellings():
            own = pc.or_(own, _all_below(places, store))
        if pc.all(own, min_count=0).as_py():
            return
        foreign = normal_places(places.filter(pc.invert(pc.fill_null(own, True))))
        allowed = pc.equal(foreign, "")
        for prefix in self.allowed:
            allowed = pc.or_(allowed, _all_below(foreign, prefix))
        refused = foreign.filter(pc.invert(allowed))
        if len(refused):
            roots = Roots.of(refused)
            raise LocationRefused(
                f"Cannot read {roots.text()}: the metadata names another store than the table's own "
                f"({', '.join(sorted(store or 'local files' for store in self.stores))}), and nothing of it was contacted; "
                f"{_HOW}",
                path=roots.first,
                feature="files-in-another-store",
            )

    def require_writable(self, place: str) -> None:
        """Raise OutsideTarget for a place that is not below a target."""
        if self.targets is not None and not any(_really_below(place, folder) for folder in self.targets):
            raise _not_chosen(place, self.targets)

    def require_folder_writable(self, place: str) -> None:
        """Like ``require_writable``; a target itself and the folders above it may be created, and deleted when empty."""
        folder = _without_slash(place)
        if self.targets is None:
            return
        if not any(_really_below(f"{folder}/x", target) or _inside(target, folder) for target in self.targets):
            raise _not_chosen(place, self.targets)

    def _in_own_store(self, place: str, *, local: bool) -> bool:
        if local:
            return LOCAL in self.stores
        return any(_inside(place, store) for store in self._spellings())

    def _spellings(self) -> set[str]:
        """The stores that are not local, under every scheme that means the same."""
        found = {store for store in self.stores if store}
        for one, other in _ALIASES:
            for store in tuple(found):
                for scheme, alias in ((one, other), (other, one)):
                    if scheme_of(store) == scheme:
                        found.add(alias + store[len(scheme) :])
        return found

    def _refuse_secrets(self, places: pa.Array) -> None:
        for mark in ("?", "@"):
            if not holds(places, mark.encode()):
                continue
            marked = pc.fill_null(pc.match_substring(places, mark), False)
            suspects = places.filter(marked)
            pattern = (
                QUERY_PATTERN
                if mark == "?"
                else r"(?i)^(?:[a-z][a-z0-9+.\-]*://[^/@]*:[^/@]*@|(?:https?|s3[an]?|gs)://[^/@]+@)"
            )
            found = suspects.filter(pc.match_substring_regex(suspects, pattern))
            if len(found):
                raise LocationRefused(
                    f"Cannot use the location {found[0].as_py()}: the metadata has credentials in it, which the target would "
                    "repeat; have the source's engine name the file without them, or relocate it",
                    path=found[0].as_py(),
                    feature="files-in-another-store",
                )


def _not_chosen(place: str, targets: tuple[str, ...]) -> OutsideTarget:
    chosen = ", ".join(targets) or "nowhere"
    return OutsideTarget(
        f"Cannot write {place}: it is not below the folder that was chosen (expected {chosen}); choose it with --target",
        path=place,
    )


def _really_below(place: str, folder: str) -> bool:
    """Whether a file would be below a folder: symbolic links of its path, as far as there are any, count."""
    if not place.startswith("/"):
        segments = place[len(folder) :].split("/")
        return _inside(place, folder) and place != folder and not {".", ".."} & set(segments) and "" not in segments[1:]
    if not folder.startswith("/"):
        return False
    inside = os.path.realpath(os.path.dirname(place) or "/")
    return _inside(inside, os.path.realpath(folder or "/")) and _inside(_normal(place), _normal(folder))


def _normal(place: str) -> str:
    """A local path without ``.``, ``..`` and double slashes; a URL as it is."""
    return os.path.normpath(place).replace("//", "/") if place.startswith("/") else place


def _inside(place: str, folder: str) -> bool:
    return place == folder or place.startswith(f"{folder.rstrip('/')}/")


def _all_below(places: pa.Array, folder: str) -> pa.Array:
    return pc.or_(pc.equal(places, folder), pc.starts_with(places, f"{folder.rstrip('/')}/"))


def _without_slash(place: str) -> str:
    return place.rstrip("/") or "/"
