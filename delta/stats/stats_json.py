"""Per-file statistics as the JSON text of ``add.stats`` (protocol, Per-file Statistics), column-wise.

Bounds are written as they are given. The engines truncate timestamps to milliseconds, and some readers of statistics
allow for that and some do not, so nothing is cut here: a timestamp bound that needs microseconds gets them, and holds
for both kinds of reader.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.stats.json_columns import JsonColumns, JsonText


def stats_text(stats: pa.Array, json: JsonColumns) -> JsonText:
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
    return json.object([(name, text) for name, text in fields if not text.is_null], rows=rows).where(pc.is_valid(stats))


def record_count_text(stats: pa.Array, json: JsonColumns) -> JsonText:
    """``{"numRecords":n}``: the statistics of a ``remove``; null where it is unknown."""
    return _scalar(pc.struct_field(stats, "num_records"), json).between("{" + json.key("numRecords"), "}")


def _scalar(values: pa.Array, json: JsonColumns) -> JsonText:
    text = json.scalar(values)
    assert text is not None
    return text


def _nested(values: pa.Array, json: JsonColumns, rows: int) -> JsonText:
    return json.object(list(_members(values, json, rows)), rows=rows).where(pc.is_valid(values))


def _members(values: pa.Array, json: JsonColumns, rows: int) -> Iterator[tuple[str, JsonText]]:
    for index, field in enumerate(values.type):
        child = pc.struct_field(values, [index])
        text = _nested(child, json, rows) if pa.types.is_struct(field.type) else json.scalar(child)
        if text is not None and not text.is_null:
            yield field.name, text
