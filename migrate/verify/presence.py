"""Whether the files that two tables list are there: data files, delete files and deletion vectors."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.migrate.formats.reader_of import reader_of
from deltaberg.migrate.source import Source
from deltaberg.migrate.verify.check import Check, shares

NAME: Final = "presence of files"


def presence_check(source: Source, target: Source) -> Check:
    """Every file that either table lists, each checked once. Raises the errors of reading the lists and the folders."""
    mine, theirs = listed_locations(source), listed_locations(target)
    places, other_places = source.storage.resolve_many(mine), target.storage.resolve_many(theirs)
    gone = mine.filter(pa.array(~source.storage.present(mine)))
    gone_places = source.storage.resolve_many(gone)
    known = np.asarray(pc.is_in(other_places, value_set=places))
    own = theirs.filter(pa.array(~known))
    others_gone = target.storage.resolve_many(own.filter(pa.array(~target.storage.present(own))))
    shared = np.asarray(pc.is_in(gone_places, value_set=other_places))
    listings = (
        (gone_places.filter(pa.array(shared)), "the source and the target list"),
        (gone_places.filter(pa.array(~shared)), "the source lists"),
        (others_gone, "the target lists"),
    )
    shown = [
        f"file {each} is missing, which {listing}"
        for (files, listing), share in zip(listings, shares(*(len(files) for files, _ in listings)), strict=True)
        for each in files.slice(0, share).to_pylist()
    ]
    missing = len(gone_places) + len(others_gone)
    return Check.of(NAME, len(mine) + len(own), shown, total=missing)


def listed_locations(source: Source) -> pa.Array:
    """Where the live files of a table are by its metadata, data files first; those of deletes once each."""
    listed = list(reader_of(source).listed_locations())
    return pa.concat_arrays(listed) if listed else pa.array([], pa.string())
