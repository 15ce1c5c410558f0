"""XTable's dataset file as a configuration: the same tables, each to the one other format that is known here."""

from __future__ import annotations

from typing import Final

from deltaberg.errors import Unsupported
from deltaberg.migrate.publish.config import PublishedTable, PublisherConfig
from deltaberg.migrate.publish.yaml_file import YamlNode
from deltaberg.migrate.source import TableFormat

_TOP: Final = ("sourceFormat", "targetFormats", "datasets")
_DATASET: Final = ("tableBasePath", "tableDataPath", "tableName", "namespace", "partitionSpec")
_FORMATS: Final = {"ICEBERG": TableFormat.ICEBERG, "DELTA": TableFormat.DELTA}
_ELSEWHERE: Final = ("HUDI", "PAIMON", "PARQUET")


def is_dataset_file(root: YamlNode) -> bool:
    return isinstance(root.value, dict) and any(key in root.value for key in _TOP)


def read_datasets(root: YamlNode) -> PublisherConfig:
    """The tables of a dataset file. Raises UsageError that names line and key, Unsupported for formats of others."""
    top = root.known_keys(_TOP)
    for key in _TOP:
        if key not in top:
            root.fail(f"{key} is missing")
    source = _format(top["sourceFormat"])
    targets = {each.scalar_text(): _format(each) for each in top["targetFormats"].sequence()}
    if not targets:
        top["targetFormats"].fail("is empty")
    if source in targets.values():
        top["targetFormats"].fail(f"names {source.value.upper()}, which is the format of the source")
    notes: list[str] = []
    tables = tuple(_table(each, source.other, notes) for each in top["datasets"].sequence())
    return PublisherConfig(tables=tables, notes=tuple(notes))


def _format(node: YamlNode) -> TableFormat:
    name = node.scalar_text().upper()
    if name in _ELSEWHERE:
        raise Unsupported(
            f"Cannot read {node.file}: line {node.line}: {node.key} is {name}, a format that deltaberg does not know "
            "(expected ICEBERG or DELTA)",
            path=node.file,
            feature=name,
        )
    if name not in _FORMATS:
        node.fail(f"must be ICEBERG or DELTA, found {node.text!r}")
    return _FORMATS[name]


def _table(node: YamlNode, to: TableFormat, notes: list[str]) -> PublishedTable:
    keys = node.known_keys(_DATASET)
    for key in ("tableBasePath", "tableName"):
        if key not in keys:
            node.fail(f"has no {key}")
    if "partitionSpec" in keys:
        there = keys["partitionSpec"]
        notes.append(
            f"{node.file}: line {there.line}: {there.key} has no meaning here: Iceberg and Delta tables say themselves how "
            "they are partitioned"
        )
    name = keys["tableName"].scalar_text()
    if "namespace" in keys:
        name = f"{keys['namespace'].scalar_text()}.{name}"
    # Where the files are is in the metadata; that they may be there, in another store, is the user's word.
    data = (keys["tableDataPath"].location(),) if "tableDataPath" in keys else ()
    return PublishedTable(name=name, source=keys["tableBasePath"].location(), to=to, allow_locations=data)
