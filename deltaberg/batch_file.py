"""The list of tables of one job, as a JSON file says it.

    {"defaults": {"to": "delta", "verify": "rows"},
     "tables": [{"source": "s3://lake/sales/orders"},
                {"source": "/lake/visits", "to": "iceberg", "target": "/lake/ice/visits", "format_version": 3}]}

A table's keys are the names of the Python API's arguments and of ``ConvertOptions``; ``defaults`` apply to every table
that does not override them. A JSON document is a YAML document too: the same file will serve both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from deltaberg.errors import UsageError
from deltaberg.keywords import check_keywords, nearest
from deltaberg.migrate.source import TableFormat
from deltaberg.migrate.spark.batch import TableRequest, Verification
from deltaberg.storage import absolute_location
from deltaberg.timestamps import moment_ms
from deltaberg.translate.options import ConvertOptions, OptionKeywords, option_types

_OPTIONS: Final = frozenset(OptionKeywords.__annotations__)
_OWN: Final[Mapping[str, Any]] = {
    "name": str,
    "source": str,
    "to": Literal["iceberg", "delta"],
    "target": str | None,
    "verify": Verification,
    "version": int | None,
    "snapshot_id": int | None,
    "ref": str | None,
    "as_of": str | None,
    "relocate": Mapping[str, str],
    "storage_options": Mapping[str, str],
    "allow_locations": Iterable[str],
}


def read_tables(data: bytes | str, *, name: str = "the list of tables") -> tuple[TableRequest, ...]:
    """The requests of a file's text. Raises UsageError that names the table and key that is wrong."""
    try:
        document = json.loads(data)
    except ValueError as error:
        raise UsageError(f"Cannot read {name}: it is not JSON ({error})") from error
    if isinstance(document, list):
        document = {"tables": document}
    if not isinstance(document, dict) or not isinstance(document.get("tables"), list):
        raise UsageError(f'Cannot read {name}: expected {{"tables": [...]}}, found {_kind(document)}')
    unknown = sorted(document.keys() - {"tables", "defaults"})
    if unknown:
        raise UsageError(
            f"Cannot read {name}: unknown key {unknown[0]} ({nearest(unknown[0], ('tables', 'defaults'))})"
        )
    defaults = document.get("defaults", {})
    if not isinstance(defaults, dict):
        raise UsageError(f"Cannot read {name}: defaults must be an object, found {_kind(defaults)}")
    return tuple(_request(each, defaults, f"{name}, table {place}") for place, each in enumerate(document["tables"], 1))


def _request(value: Any, defaults: Mapping[str, Any], where: str) -> TableRequest:
    if isinstance(value, str):
        value = {"source": value}
    if not isinstance(value, dict):
        raise UsageError(f"Cannot read {where}: expected an object, found {_kind(value)}")
    given = {**defaults, **value}
    known = {**_OWN, **{key: kind for key, kind in option_types().items() if key in _OPTIONS}}
    check_keywords(f"Cannot read {where}", given, known, shown=json.dumps)
    for key in ("source", "to"):
        if key not in given:
            raise UsageError(f"Cannot read {where}: {key} is missing")
    target, as_of = given.get("target"), given.get("as_of")
    chosen = {key: given[key] for key in ("verify", "version", "snapshot_id", "ref", "relocate", "storage_options", "allow_locations")
              if key in given}  # fmt: skip
    return TableRequest(
        name=given.get("name") or given["source"],
        source=absolute_location(given["source"]),
        to=TableFormat(given["to"]),
        target=None if target is None else absolute_location(target),
        options=ConvertOptions(**{key: given[key] for key in given.keys() & _OPTIONS}, engine="spark"),
        as_of_ms=None if as_of is None else moment_ms(as_of),
        **chosen,
    )


def _kind(value: Any) -> str:
    return {dict: "an object", list: "a list", str: "a text", type(None): "null"}.get(type(value), "something else")
