"""Per-file statistics as the JSON text of ``add.stats`` (protocol, Per-file Statistics), column-wise.

Bounds are written as they are given. The engines truncate timestamps to milliseconds, and some readers of statistics
allow for that and some do not, so nothing is cut here: a timestamp bound that needs microseconds gets them, and holds
for both kinds of reader.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.json_columns import JsonColumns


def stats_texts(stats: pa.Array, json: JsonColumns) -> pa.Array:
    """The JSON of a column shaped like ``ADD_SCHEMA``'s ``stats``; null where the struct is null.

    Members that are null are left out, as are columns of types for which Delta keeps no bounds (binary, variant, ...).
    """
    rows = len(stats)
    fields = [("numRecords", _scalar(pc.struct_field(stats, "num_records"), json))]
    for name, column in (("minValues", "min_values"), ("maxValues", "max_values"), ("nullCount", "null_count")):
        if stats.type.get_field_index(column) >= 0:
            fields.append((name, _nested(pc.struct_field(stats, column), json, rows)))
    if stats.type.get_field_index("tight_bounds") >= 0:
        fields.append(("tightBounds", _scalar(pc.struct_field(stats, "tight_bounds"), json)))
    texts = json.object([(name, text) for name, text in fields if text.null_count < rows], rows=rows)
    return pc.if_else(pc.is_valid(stats), texts, pa.scalar(None, pa.string())) if stats.null_count else texts


def record_count_texts(stats: pa.Array, json: JsonColumns) -> pa.Array:
    """``{"numRecords":n}``: all that the statistics of a ``remove`` are asked for; null where it is unknown."""
    count = _scalar(pc.struct_field(stats, "num_records"), json)
    return pc.binary_join_element_wise("{" + json.key("numRecords"), count, "}", "")


def _scalar(values: pa.Array, json: JsonColumns) -> pa.Array:
    text = json.scalar(values)
    assert text is not None
    return text


def _nested(values: pa.Array, json: JsonColumns, rows: int) -> pa.Array:
    texts = json.object(list(_members(values, json, rows)), rows=rows)
    return pc.if_else(pc.is_valid(values), texts, pa.scalar(None, pa.string())) if values.null_count else texts


def _members(values: pa.Array, json: JsonColumns, rows: int) -> Iterator[tuple[str, pa.Array]]:
    for index, field in enumerate(values.type):
        child = pc.struct_field(values, index)
        text = _nested(child, json, rows) if pa.types.is_struct(field.type) else json.scalar(child)
        if text is not None and text.null_count < rows:
            yield field.name, text
