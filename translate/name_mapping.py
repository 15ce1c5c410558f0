"""The name mapping by which Iceberg readers find the columns of files that carry no field ids.

Iceberg: "Column Projection", "Name Mapping Serialization". The names are the physical ones of the Delta side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from deltaberg.delta import types as delta
from deltaberg.iceberg.name_mapping import MappedField, NameMapping
from deltaberg.translate.field_ids import Path, physical_name


def delta_to_name_mapping(
    schema: delta.StructType, ids: Mapping[Path, int], *, left_out: Iterable[Path] = (), foreign: Iterable[str] = ()
) -> NameMapping:
    """Every field's physical name with its id.

    left_out: paths that get a name without an id, so that readers take the value from elsewhere: partition columns,
    whose value in the log counts and not the one in the file, and void columns. foreign: names of columns that files
    hold beside the table's (change data feed); without an entry some readers stop at them.
    """
    hidden = frozenset(left_out)
    own = _fields(schema, (), ids, hidden)
    taken = {name for field in own for name in field.names}
    return NameMapping(fields=(*own, *(MappedField(names=(name,)) for name in foreign if name not in taken)))


def _fields(
    schema: delta.StructType, path: Path, ids: Mapping[Path, int], hidden: frozenset[Path]
) -> tuple[MappedField, ...]:
    return tuple(
        _field(physical_name(column), column.type, (*path, physical_name(column)), ids, hidden)
        for column in schema.fields
    )


def _field(
    name: str, kind: delta.DeltaType, path: Path, ids: Mapping[Path, int], hidden: frozenset[Path]
) -> MappedField:
    if path in hidden:
        return MappedField(names=(name,))
    return MappedField(names=(name,), field_id=ids[path], fields=_parts(kind, path, ids, hidden))


def _parts(
    kind: delta.DeltaType, path: Path, ids: Mapping[Path, int], hidden: frozenset[Path]
) -> tuple[MappedField, ...]:
    match kind:
        case delta.StructType():
            return _fields(kind, path, ids, hidden)
        case delta.ArrayType(element_type=element):
            return (_field("element", element, (*path, "element"), ids, hidden),)
        case delta.MapType(key_type=key, value_type=value):
            return (
                _field("key", key, (*path, "key"), ids, hidden),
                _field("value", value, (*path, "value"), ids, hidden),
            )
        case _:
            return ()
