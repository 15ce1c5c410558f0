"""Columns with a variant inside, as JSON text: the whole column, as Spark's ``to_json`` gives it.

A top-level variant is read as JSON text already. Inside an array, map or struct its text cannot be told from a
string's, so the column that holds it becomes one JSON text a row.
"""

from __future__ import annotations

import base64

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.schema.types import (
    ArrayType,
    BinaryType,
    DeltaType,
    GeographyType,
    GeometryType,
    MapType,
    StructType,
    VariantType,
)
from deltaberg.delta.stats.json_columns import PLAIN, of_array


def holds_variant(delta_type: DeltaType) -> bool:
    """Whether a type is a variant or has one inside."""
    match delta_type:
        case VariantType():
            return True
        case ArrayType(element_type=element):
            return holds_variant(element)
        case MapType(key_type=key, value_type=value):
            return holds_variant(key) or holds_variant(value)
        case StructType(fields=fields):
            return any(holds_variant(field.type) for field in fields)
        case _:
            return False


def json_text(values: pa.Array, delta_type: DeltaType) -> pa.Array:
    """The JSON text of each value; null where the value is null. Variants within are JSON text already.

    Null members of structs are left out, null elements of arrays and values of maps are ``null``; bytes are Base64.
    """
    match delta_type:
        case VariantType():
            return values
        case StructType(fields=fields):
            members = [
                (field.name, of_array(json_text(pc.struct_field(values, [index]), field.type)))
                for index, field in enumerate(fields)
            ]
            return PLAIN.object(members, rows=len(values)).where(pc.is_valid(values)).array()
        case ArrayType(element_type=element):
            texts = pc.fill_null(json_text(values.values, element), "null")
            joined = pc.binary_join(pa.ListArray.from_arrays(values.offsets, texts), ",")
            return _where_valid(values, pc.binary_join_element_wise("[", joined, "]", ""))
        case MapType(key_type=key, value_type=value):
            names = _names(json_text(values.keys, key))
            texts = pc.fill_null(json_text(values.items, value), "null")
            entries = pc.binary_join_element_wise(names, texts, ":")
            joined = pc.binary_join(pa.ListArray.from_arrays(values.offsets, entries), ",")
            return _where_valid(values, pc.binary_join_element_wise("{", joined, "}", ""))
        case BinaryType() | GeometryType() | GeographyType():
            encoded = [None if each is None else base64.b64encode(each).decode() for each in values.to_pylist()]
            return PLAIN.string(pa.array(encoded, pa.string())).array()
        case _:
            text = PLAIN.scalar(values)
            return pa.nulls(len(values), pa.string()) if text is None else text.array()


def _names(texts: pa.Array) -> pa.Array:
    """Member names from JSON texts of keys: what is no string yet becomes one."""
    quoted = pc.starts_with(texts, '"')
    return pc.if_else(quoted, texts, PLAIN.string(texts).array())


def _where_valid(values: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_valid(values), texts, pa.scalar(None, pa.string())) if values.null_count else texts
