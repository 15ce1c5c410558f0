"""``--iceberg-compat``: whether a Delta target keeps the rules of an Iceberg compatibility version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from deltaberg.delta.create_table import new_metadata
from deltaberg.delta.protocol.iceberg_compat import IcebergCompat, broken_rules
from deltaberg.delta.protocol.required_protocol import features_in_use, new_protocol
from deltaberg.delta.schema.column_mapping import MappingMode
from deltaberg.delta.schema.types import StructType
from deltaberg.translate import codes
from deltaberg.translate.findings import Finding


def compat_findings(
    version: IcebergCompat,
    schema: StructType,
    *,
    mode: MappingMode,
    partition_columns: Iterable[str],
    properties: Mapping[str, str],
) -> tuple[Finding, ...]:
    """The declared version, and every rule that the table as designed would break, each of which refuses the
    conversion.

    properties: those that switch features on. The rules are PROTOCOL "Iceberg Compatibility V1", "V2" and the RFC of V3.
    """
    metadata = new_metadata(
        schema,
        table_id="designed",
        created_time_ms=0,
        partition_columns=partition_columns,
        configuration={**properties, version.property_key: "true"},
        column_mapping=mode,
    )
    protocol = new_protocol(features_in_use(metadata))
    broken = [
        Finding(code=codes.ICEBERG_COMPAT_IMPOSSIBLE, what=version.feature, detail=reason)
        for reason in broken_rules(version, protocol, metadata)
    ]
    return tuple(broken) or (Finding(code=codes.ICEBERG_COMPAT, what=version.feature),)
