"""Whether the files that two tables list are there: data files, delete files and deletion vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.deletion_vector.deletion_vector import descriptors
from deltaberg.delta.log.add_path import location_array
from deltaberg.iceberg.manifest.live_files import data_files, delete_files
from deltaberg.migrate.source import DeltaSource, Source
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
    found = list(_delta_locations(source) if isinstance(source, DeltaSource) else _iceberg_locations(source))
    return pa.concat_arrays(found) if found else pa.array([], pa.string())


def _iceberg_locations(source: Source) -> Iterator[pa.Array]:
    assert not isinstance(source, DeltaSource)
    for batch in data_files(source.table, source.snapshot, with_metrics=False):
        yield batch.column("file_path")
    deletes = [batch.column("file_path") for batch in delete_files(source.table, source.snapshot)]
    if deletes:
        yield pc.unique(pa.concat_arrays(deletes))


def _delta_locations(source: DeltaSource) -> Iterator[pa.Array]:
    root, vectors = source.snapshot.table_root, []
    for batch in source.snapshot.live_names():
        yield location_array(batch.column("path"), root)
        column = batch.column("deletion_vector")
        stored = pc.fill_null(pc.not_equal(pc.struct_field(column, "storage_type"), "i"), False)
        if pc.any(stored, min_count=0).as_py():
            vectors.append(_one_a_file(column.filter(stored)))
    if vectors:
        one_a_file = _one_a_file(pa.concat_arrays(vectors))
        yield pa.array([each.location(root) for each in descriptors(one_a_file) if each is not None], pa.string())


def _one_a_file(vectors: pa.StructArray) -> pa.StructArray:
    """The first vector of each file that holds some."""
    kind, name = (pc.struct_field(vectors, field) for field in ("storage_type", "path_or_inline_dv"))
    files = pc.binary_join_element_wise(kind, name, "").dictionary_encode()
    _, first = np.unique(files.indices.to_numpy(), return_index=True)
    return vectors.take(pa.array(first))
