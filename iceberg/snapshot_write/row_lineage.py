"""Row lineage: the values of ``_row_id`` and ``_last_updated_sequence_number`` on read (section "Row Lineage
Assignment").
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.iceberg.schema.types import LongType, NestedField

ROW_ID = NestedField(field_id=2147483540, name="_row_id", required=False, type=LongType())
LAST_UPDATED_SEQUENCE_NUMBER = NestedField(
    field_id=2147483539, name="_last_updated_sequence_number", required=False, type=LongType()
)
LINEAGE_FIELDS = (ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER)
"""The fields as data files may store them, by their reserved ids."""


def row_ids(stored: pa.Array, positions: pa.Array, first_row_id: int | None) -> pa.Array:
    """The id of each row: the stored one, else the file's ``first_row_id`` plus the row's position.

    A file without ``first_row_id`` (of a snapshot from before version 3) has no row ids, whatever it stores.
    Raises CorruptMetadata where ids would exceed 64 bits.
    """
    if first_row_id is None:
        return pa.nulls(len(positions), pa.int64())
    try:
        inherited = pc.add_checked(positions, pa.scalar(first_row_id, pa.int64()))
    except pa.ArrowInvalid as error:
        raise CorruptMetadata(
            f"Cannot assign row ids: first_row_id {first_row_id} leaves no room for them in 64 bits",
            field="first_row_id",
        ) from error
    return pc.coalesce(stored, inherited)


def last_updated_sequence_numbers(stored: pa.Array, sequence_number: int, first_row_id: int | None) -> pa.Array:
    """The sequence number of the last update of each row: the stored one, else the file's data sequence number.

    Null, as the row id is, for a file without ``first_row_id``.
    """
    if first_row_id is None:
        return pa.nulls(len(stored), pa.int64())
    return pc.fill_null(stored, sequence_number)
