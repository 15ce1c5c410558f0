"""Which Iceberg files hold timestamps as INT96, and whether their bounds prove that every reader gets them right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.datafile import FileField
from deltaberg.delta.schema.column_mapping import MappingMode
from deltaberg.iceberg.manifest.live_files import data_files
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.migrate.source import IcebergSource
from deltaberg.migrate.to_delta.ancestry import Ancestry
from deltaberg.migrate.to_delta.survey import DeltaSurvey, observe
from deltaberg.translate import codes
from deltaberg.translate.file_sharing import SharingBlocker
from deltaberg.translate.legacy_timestamps import int96_may_overflow
from deltaberg.translate.schema import LeafPair, iceberg_to_delta_schema
from deltaberg.translate.statistics import iceberg_to_delta_stats


def int96_blockers(
    survey: DeltaSurvey,
    source: IcebergSource,
    ancestry: Ancestry,
    schema: Schema,
    held: Sequence[Mapping[int, FileField]],
) -> dict[tuple[int, int], tuple[SharingBlocker, ...]]:
    """The blockers by layout and spec id: INT96_OUT_OF_RANGE for a column where some file's bounds prove nothing.

    held: of each of the survey's layouts, the fields by id. The files are read once more, with their metrics, only
    where some are stored so.
    """
    leaves = iceberg_to_delta_schema(schema, mode=MappingMode.NONE).leaves
    stored = [_stored(leaves, fields, layout.int96) for fields, layout in zip(held, survey.footers.layout, strict=True)]
    if not any(stored):
        return {}
    doubtful: dict[tuple[int, int], dict[str, bool]] = {}
    for snapshot in ancestry.distinct:
        for batch in data_files(source.table, snapshot):
            _, layout = observe(survey.footers, source, batch)
            spec_id = batch.column("spec_id")[0].as_py()
            for index in np.unique(layout).tolist():
                known = doubtful.setdefault(
                    (index, spec_id), dict.fromkeys((each.name for each in stored[index]), False)
                )
                for leaf in stored[index]:
                    known[leaf.name] |= _may_overflow(batch.filter(pa.array(layout == index)), leaf)
    return {
        key: tuple(
            SharingBlocker(code=codes.INT96_OUT_OF_RANGE if doubt else codes.INT96, column=name)
            for name, doubt in columns.items()
        )
        for key, columns in doubtful.items()
    }


def _stored(leaves: Sequence[LeafPair], fields: Mapping[int, FileField], int96: frozenset[int]) -> list[LeafPair]:
    return [leaf for leaf in leaves if leaf.field_id in fields and fields[leaf.field_id].first_leaf in int96]


def _may_overflow(files: pa.RecordBatch, leaf: LeafPair) -> bool:
    if leaf.in_collection:
        return True
    stats = iceberg_to_delta_stats(files, [leaf])
    return bool(pc.any(int96_may_overflow(stats, leaf.path, files.column("record_count"))).as_py())
