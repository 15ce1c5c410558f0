"""The columns that a clustered table is clustered by. PROTOCOL "Clustered Table"."""

from __future__ import annotations

import json
from collections.abc import Mapping

from deltaberg.delta.errors import CorruptLog
from deltaberg.delta.log.actions import DomainMetadata
from deltaberg.delta.schema.column_mapping import ColumnMapping
from deltaberg.delta.schema.types import StructType

DOMAIN = "delta.clustering"


def clustering_columns(
    domain_metadata: Mapping[str, DomainMetadata], mapping: ColumnMapping
) -> tuple[tuple[str, ...], ...]:
    """The logical path of each clustering column, outermost name first; none for a table that is not clustered.

    The domain lists physical paths; a plain name stands for a column of the top level. Raises CorruptLog for a
    configuration that is malformed or names a column that the schema does not have.
    """
    domain = domain_metadata.get(DOMAIN)
    if domain is None:
        return ()
    try:
        columns = json.loads(domain.configuration).get("clusteringColumns")
    except (ValueError, AttributeError, RecursionError) as error:
        raise CorruptLog(f"Cannot read the domain {DOMAIN}: its configuration is no JSON object") from error
    if not isinstance(columns, list):
        raise CorruptLog(f"Cannot read the domain {DOMAIN}: clusteringColumns is {columns!r:.100} (expected a list)")
    return tuple(_logical_path([column] if isinstance(column, str) else column, mapping) for column in columns)


def _logical_path(physical: object, mapping: ColumnMapping) -> tuple[str, ...]:
    if not isinstance(physical, list) or not physical or not all(isinstance(step, str) for step in physical):
        raise CorruptLog(f"Cannot read the domain {DOMAIN}: a column is {physical!r:.100} (expected its path)")
    path: list[str] = []
    struct: object = mapping.schema
    for step in physical:
        fields = struct.fields if isinstance(struct, StructType) else ()
        field = next((each for each in fields if mapping.physical_name(each) == step), None)
        if field is None:
            raise CorruptLog(f"Cannot read the domain {DOMAIN}: the schema has no column {'.'.join(physical)!r}")
        path.append(field.name)
        struct = field.type
    return tuple(path)
