"""The annotation of Variant groups, which pyarrow's writer does not know, put into a footer that it made.

A LogicalType is one more field of a SchemaElement; it is inserted before the byte that ends the element, and nothing
else of the footer moves.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.types as pt

from deltaberg.datafile.file_schema import child_fields, is_list
from deltaberg.datafile.parquet.thrift_compact import ThriftError, list_ends

VARIANT_MARK = b"deltaberg:variant"
"""Key in the metadata of an Arrow field that is to be written as a Variant."""

_SCHEMA = 2
_LOGICAL_TYPE = 10
# The union LogicalType with its field 16, VARIANT: a struct whose field 1, the version of the encoding, is 1.
_VARIANT = b"\x0c\x20\x13\x01\x00\x00"


def variant_elements(schema: pa.Schema) -> frozenset[int]:
    """Which elements of the Parquet schema, counted from its root as 0, are marked as Variants."""
    found: set[int] = set()
    at = 1
    for field in schema:
        at = _collect(field, at, found)
    return frozenset(found)


def _collect(field: pa.Field, at: int, found: set[int]) -> int:
    if VARIANT_MARK in (field.metadata or {}):
        found.add(at)
    # Lists and maps have a repeated group of their own between them and what they hold.
    at += 2 if is_list(field.type) or pt.is_map(field.type) else 1
    for child in child_fields(field.type):
        at = _collect(child, at, found)
    return at


def annotated(footer: bytes, elements: Collection[int]) -> bytes:
    """A footer in compact Thrift with those elements of its schema annotated as Variants."""
    parts: list[bytes] = []
    start = 0
    for index, (end, last_field) in enumerate(list_ends(footer, _SCHEMA)):
        if index in elements:
            if last_field >= _LOGICAL_TYPE:
                raise ThriftError(f"element {index} of the schema is annotated already")
            header = bytes(((_LOGICAL_TYPE - last_field) << 4 | 12,))
            parts += (footer[start : end - 1], header, _VARIANT)
            start = end - 1
    return b"".join((*parts, footer[start:]))
