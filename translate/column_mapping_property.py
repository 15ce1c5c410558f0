"""The column mapping of a Delta table, kept in a property of the Iceberg table that it became, for the way back.

Data files state the names of their columns, but neither those of partition columns that they lack, nor whether readers
went by name. Delta: "Column Mapping".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from deltaberg.delta.schema.column_mapping import MappingMode

MAPPING_KEY: Final = "deltaberg.delta.column-mapping"


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedMapping:
    """mode: of the Delta table. partition_names: physical names of its partition columns by field id, in their order."""

    mode: MappingMode
    partition_names: Mapping[int, str]

    def to_text(self) -> str:
        """The property's value."""
        columns = [{"id": field_id, "name": name} for field_id, name in self.partition_names.items()]
        return json.dumps({"mode": self.mode.value, "partition-columns": columns}, ensure_ascii=False)

    @staticmethod
    def of(properties: Mapping[str, str]) -> CarriedMapping | None:
        """The mapping in an Iceberg table's properties; None where there is none, or not in the form that deltaberg
        writes.
        """
        try:
            stated = json.loads(properties.get(MAPPING_KEY, "null"))
            return CarriedMapping(
                mode=MappingMode(stated["mode"]),
                partition_names={int(each["id"]): str(each["name"]) for each in stated["partition-columns"]},
            )
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
