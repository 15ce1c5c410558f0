"""What ``publish`` keeps up to date, as a file says it, checked to the last key before anything is opened.

    interval: 10
    defaults:
      to: iceberg
      storage_options: {aws_secret_access_key: "${AWS_SECRET}"}
    tables:
      - source: s3://lake/sales/orders
      - {name: visits, source: visits, to: delta, target: /lake/delta/visits, interval: 60}

A table's keys are the names of the Python API's arguments and of ``ConvertOptions``; what stands in ``defaults`` holds for
every table that does not say otherwise. XTable's dataset file is read as well (``xtable``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from deltaberg.errors import UsageError
from deltaberg.migrate.publish.config import INTERVAL_S, LEAST_TERM_S, PublishedTable, PublisherConfig
from deltaberg.migrate.publish.xtable import is_dataset_file, read_datasets
from deltaberg.migrate.publish.yaml_file import YamlNode, read_yaml
from deltaberg.migrate.source import TableFormat
from deltaberg.migrate.target.target_root import usual_root
from deltaberg.storage import absolute_location, open_storage
from deltaberg.translate.options import ConvertOptions, OptionKeywords, option_types

_OPTIONS: Final = tuple(name for name in OptionKeywords.__annotations__ if name != "history")
_TABLE: Final = (
    "name", "source", "to", "target", "ref", "squash", "interval", "relocate", "storage_options", "allow_locations",
)  # fmt: skip
_TOP: Final = ("tables", "defaults", "interval", "concurrency", "lease", "recheck", "max_backoff")
_NOT_HERE: Final = {
    "version": "publish follows the newest version",
    "snapshot_id": "publish follows the newest snapshot; choose a branch with ref",
    "as_of": "publish follows the newest state",
    "history": "each source commit becomes one target commit; squash makes one of all",
}
_NO_MEANING: Final = {"verify": "nothing is compared; use deltaberg verify"}
_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_config(location: str | os.PathLike[str], *, environment: Mapping[str, str] | None = None) -> PublisherConfig:
    """The configuration in a file. Raises UsageError that names file, line and key, StorageError where it cannot be read."""
    place = absolute_location(os.fspath(location))
    return parse_config(open_storage().get(place), place, environment=environment)


def parse_config(data: bytes, file: str, *, environment: Mapping[str, str] | None = None) -> PublisherConfig:
    """The configuration in a text. file: where it stands: relative locations begin in its folder."""
    root = read_yaml(data, file)
    variables = os.environ if environment is None else environment
    if is_dataset_file(root):
        return _checked(read_datasets(root), root)
    top = root.known_keys(_TOP)
    if "tables" not in top:
        root.fail("tables is missing")
    notes: list[str] = []
    interval = top["interval"].seconds() if "interval" in top else INTERVAL_S
    defaults = _table_keys(top["defaults"], notes) if "defaults" in top else {}
    if "name" in defaults:
        defaults["name"].fail("belongs to one table")
    reader = _TableReader(defaults, interval, variables, notes)
    tables = tuple(reader.read(each) for each in top["tables"].sequence())
    chosen: dict[str, Any] = {}
    if "concurrency" in top:
        chosen["concurrency"] = top["concurrency"].of_type(int)
        if not 1 <= chosen["concurrency"] <= 256:
            top["concurrency"].fail(f"must be from 1 to 256, found {chosen['concurrency']}")
    for key, name, least in (
        ("lease", "lease_s", LEAST_TERM_S),
        ("recheck", "recheck_s", 0.0),
        ("max_backoff", "max_backoff_s", 0.0),
    ):
        if key in top:
            chosen[name] = top[key].seconds(least=least)
    return _checked(PublisherConfig(tables=tables, notes=tuple(dict.fromkeys(notes)), **chosen), root)


def _checked(config: PublisherConfig, root: YamlNode) -> PublisherConfig:
    """Raises UsageError where two tables have one name or one target."""
    if not config.tables:
        root.fail("tables is empty: there is nothing to publish")
    names: set[str] = set()
    targets: dict[str, str] = {}
    for table in config.tables:
        if table.name in names:
            raise UsageError(
                f"Cannot read {root.file}: two tables have the name {table.name}; give each its own", path=root.file
            )
        names.add(table.name)
        # Of the same format: one folder holds a table of each.
        target = f"{table.to.value} {(table.target or usual_root(table.source, table.to)).rstrip('/')}"
        if target in targets:
            raise UsageError(
                f"Cannot read {root.file}: the tables {targets[target]} and {table.name} have one target; give each its own",
                path=root.file,
            )
        targets[target] = table.name
    return config


def _table_keys(node: YamlNode, notes: list[str]) -> dict[str, YamlNode]:
    for key, found in node.mapping().items():
        if key in _NOT_HERE:
            found.fail(f"cannot be chosen: {_NOT_HERE[key]}")
    keys = node.known_keys((*_TABLE, *_OPTIONS, *_NO_MEANING))
    for key in keys.keys() & _NO_MEANING.keys():
        notes.append(f"{node.file}: line {keys[key].line}: {keys[key].key} has no meaning here: {_NO_MEANING[key]}")
    return {key: found for key, found in keys.items() if key not in _NO_MEANING}


class _TableReader:
    """Reads the tables of a file, each with the defaults behind it."""

    __slots__ = ("_defaults", "_interval", "_notes", "_variables")

    def __init__(
        self, defaults: dict[str, YamlNode], interval: float, variables: Mapping[str, str], notes: list[str]
    ) -> None:
        self._defaults, self._interval, self._variables, self._notes = defaults, interval, variables, notes

    def read(self, node: YamlNode) -> PublishedTable:
        given = {**self._defaults, **_table_keys(node, self._notes)}
        for key in ("source", "to"):
            if key not in given:
                node.fail(f"has no {key}")
        source = given["source"].location()
        chosen: dict[str, Any] = {}
        for key, kind in (("ref", str), ("squash", bool)):
            if key in given:
                chosen[key] = given[key].of_type(kind)
        if "target" in given:
            chosen["target"] = given["target"].location()
        if "relocate" in given:
            chosen["relocate"] = given["relocate"].texts()
        if "storage_options" in given:
            chosen["storage_options"] = {
                key: self._expanded(each) for key, each in given["storage_options"].mapping().items()
            }
            _check_storage_options(given["storage_options"], chosen["storage_options"])
        if "allow_locations" in given:
            chosen["allow_locations"] = tuple(each.scalar_text() for each in given["allow_locations"].sequence())
        return PublishedTable(
            name=given["name"].scalar_text() if "name" in given else given["source"].scalar_text(),
            source=source,
            to=TableFormat(given["to"].of_type(Literal["iceberg", "delta"])),
            interval_s=given["interval"].seconds() if "interval" in given else self._interval,
            options=_options(given),
            **chosen,
        )

    def _expanded(self, node: YamlNode) -> str:
        """A value with the variables of the environment that it names."""

        def value(found: re.Match[str]) -> str:
            name = found[1]
            if not _NAME.fullmatch(name):
                node.fail(f"names ${{{name}}} (expected the name of an environment variable)")
            if name not in self._variables:
                node.fail(f"names ${{{name}}}, which is not set in the environment")
            return self._variables[name]

        return _VARIABLE.sub(value, node.scalar_text())


def _check_storage_options(node: YamlNode, options: Mapping[str, str]) -> None:
    try:
        open_storage(options=options)
    except UsageError as error:
        raise UsageError(
            f"Cannot read {node.file}: line {node.line}: {node.key}: {error.message}", path=node.file
        ) from error


def _options(given: Mapping[str, YamlNode]) -> ConvertOptions | None:
    chosen = {name: given[name].of_type(option_types()[name]) for name in _OPTIONS if name in given}
    return ConvertOptions(**chosen) if chosen else None
