"""Reads one table after another with engines that nobody here wrote; a process of its own, since an engine may abort it.

usage: independent_readers.py [ORACLE.py]

A request is a JSON line {"engine", "table", "version", "out"} on standard input: ``table`` is a ``*.metadata.json`` for an
Iceberg reader and a folder for a Delta reader; ``s3:`` URLs take AWS_ENDPOINT_URL and the keys from the environment. The answer is a line ``READ {"rows": n}`` or ``READ {"error": text}``; the
rows are in the Parquet file ``out``. ORACLE.py: a module whose ENGINES are taken before those here.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The package that reads, and what it is asked, as a failure names them; ``{table}`` and ``{at}`` are filled in."""

    package: str
    query: str
    at: str = ", version={}"

    def of(self, table: str, version: str | None) -> str:
        at = self.at.format(int(version)) if version else ""
        return self.query.format(table=table, at=at)


QUERIES = {
    "duckdb-iceberg": Asked(
        package="duckdb", query="SELECT * FROM iceberg_scan('{table}'{at})", at=", snapshot_from_id = {}"
    ),
    "duckdb-delta": Asked(package="duckdb", query="SELECT * FROM delta_scan('{table}'{at})", at=", version = {}"),
    "pyiceberg": Asked(
        package="pyiceberg", query="StaticTable.from_metadata('{table}').scan({at})", at="snapshot_id={}"
    ),
    "deltalake": Asked(package="deltalake", query="SELECT * FROM DeltaTable('{table}'{at})"),
    "datafusion-delta": Asked(package="datafusion", query="SELECT * FROM DeltaTable('{table}'{at})"),
    "polars-delta": Asked(package="polars", query="scan_delta('{table}'{at})"),
    "deltalake-to_pandas": Asked(package="deltalake", query="DeltaTable('{table}'{at}).to_pandas()"),
    "deltalake-to_pyarrow_table": Asked(package="deltalake", query="DeltaTable('{table}'{at}).to_pyarrow_table()"),
    "deltalake-to_pyarrow_dataset": Asked(package="deltalake", query="DeltaTable('{table}'{at}).to_pyarrow_dataset()"),
    "polars-read_delta": Asked(package="polars", query="read_delta('{table}'{at})"),
    "polars-iceberg": Asked(package="polars", query="scan_iceberg('{table}'{at})", at=", snapshot_id={}"),
}


def duckdb(sql: str, *extensions: str) -> pa.Table:
    import duckdb

    site = Path(sysconfig.get_paths()["purelib"])
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in (*extensions, *(("httpfs",) if "'s3://" in sql else ())):
        connection.execute(f"LOAD '{next(site.glob(f'duckdb_extension_{name}/extensions/*/{name}.duckdb_extension'))}'")
    if "'s3://" in sql:
        endpoint = urlsplit(os.environ["AWS_ENDPOINT_URL"])
        connection.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{os.environ['AWS_ACCESS_KEY_ID']}', "
            f"SECRET '{os.environ['AWS_SECRET_ACCESS_KEY']}', REGION '{os.environ['AWS_REGION']}', "
            f"ENDPOINT '{endpoint.netloc}', URL_STYLE 'path', USE_SSL {endpoint.scheme == 'https'})"
        )
    connection.execute("SET TimeZone = 'UTC'")
    return connection.execute(sql).to_arrow_table()


def duckdb_iceberg(table: str, version: str | None) -> pa.Table:
    return duckdb(QUERIES["duckdb-iceberg"].of(table, version), "avro", "iceberg")


def duckdb_delta(table: str, version: str | None) -> pa.Table:
    return duckdb(QUERIES["duckdb-delta"].of(table, version), "delta")


def pyiceberg(table: str, version: str | None) -> pa.Table:
    from pyiceberg.table import StaticTable

    named = {
        "s3.endpoint": "AWS_ENDPOINT_URL",
        "s3.access-key-id": "AWS_ACCESS_KEY_ID",
        "s3.secret-access-key": "AWS_SECRET_ACCESS_KEY",
        "s3.region": "AWS_REGION",
    }
    properties = {key: os.environ[name] for key, name in named.items() if name in os.environ}
    opened = StaticTable.from_metadata(table, properties)
    return opened.scan(snapshot_id=int(version) if version else None).to_arrow()


def delta_rs(table: str, version: str | None) -> pa.Table:
    from deltalake import DeltaTable, QueryBuilder

    opened = DeltaTable(table, version=int(version) if version else None)
    return pa.table(QueryBuilder().register("t", opened).execute("SELECT * FROM t").read_all())


def delta_rs_pandas(table: str, version: str | None) -> pa.Table:
    from deltalake import DeltaTable

    frame = DeltaTable(table, version=int(version) if version else None).to_pandas()
    return pa.Table.from_pandas(frame, preserve_index=False)


def delta_rs_pyarrow_table(table: str, version: str | None) -> pa.Table:
    from deltalake import DeltaTable

    return DeltaTable(table, version=int(version) if version else None).to_pyarrow_table()


def delta_rs_pyarrow_dataset(table: str, version: str | None) -> pa.Table:
    from deltalake import DeltaTable

    return DeltaTable(table, version=int(version) if version else None).to_pyarrow_dataset().to_table()


def datafusion_delta(table: str, version: str | None) -> pa.Table:
    from datafusion import SessionContext
    from deltalake import DeltaTable

    context = SessionContext()
    context.register_table("t", DeltaTable(table, version=int(version) if version else None))
    return context.sql("SELECT * FROM t").to_arrow_table()


def polars_delta(table: str, version: str | None) -> pa.Table:
    import polars

    return polars.scan_delta(table, version=int(version) if version else None).collect().to_arrow()


def polars_read_delta(table: str, version: str | None) -> pa.Table:
    import polars

    return polars.read_delta(table, version=int(version) if version else None).to_arrow()


def polars_iceberg(table: str, version: str | None) -> pa.Table:
    import polars

    return polars.scan_iceberg(table, snapshot_id=int(version) if version else None).collect().to_arrow()


ENGINES: dict[str, Callable[[str, str | None], Any]] = {
    "duckdb-iceberg": duckdb_iceberg,
    "duckdb-delta": duckdb_delta,
    "pyiceberg": pyiceberg,
    "deltalake": delta_rs,
    "deltalake-to_pandas": delta_rs_pandas,
    "deltalake-to_pyarrow_table": delta_rs_pyarrow_table,
    "deltalake-to_pyarrow_dataset": delta_rs_pyarrow_dataset,
    "datafusion-delta": datafusion_delta,
    "polars-delta": polars_delta,
    "polars-read_delta": polars_read_delta,
    "polars-iceberg": polars_iceberg,
}


def asked(engine: str, table: str, version: str | None) -> str:
    """``duckdb 1.5.5 cannot answer SELECT * FROM delta_scan('/t')``."""
    known = QUERIES[engine]
    return f"{known.package} {metadata.version(known.package)} cannot answer {known.of(table, version)}"


def plain(kind: pa.DataType) -> pa.DataType:
    """The same type with views and dictionaries as ordinary arrays: Parquet cannot write every one of them."""
    if pa.types.is_dictionary(kind):
        return plain(kind.value_type)
    if kind == pa.string_view():
        return pa.string()
    if kind == pa.binary_view():
        return pa.binary()
    if isinstance(kind, pa.BaseExtensionType):
        return plain(kind.storage_type)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(plain(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(plain(kind.key_type), kind.item_field.with_type(plain(kind.item_type)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(plain(kind.value_type)))
    return kind


def write(rows: pa.Table, out: str) -> None:
    schema = pa.schema([field.with_type(plain(field.type)) for field in rows.schema])
    if rows.schema != schema:
        columns = [pa.array(column.to_pylist(), field.type) for column, field in zip(rows.columns, schema, strict=True)]
        rows = pa.table(columns, schema=schema)
    pq.write_table(rows, out)


def main() -> None:
    engines = dict(ENGINES)
    if len(sys.argv) > 1:
        found = importlib.util.spec_from_file_location("oracle", sys.argv[1])
        assert found is not None
        assert found.loader is not None
        oracle = importlib.util.module_from_spec(found)
        found.loader.exec_module(oracle)
        engines.update(oracle.ENGINES)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            rows = engines[request["engine"]](request["table"], request["version"])
            write(rows, request["out"])
            answer: dict[str, Any] = {"rows": rows.num_rows}
        except BaseException as error:  # noqa: BLE001  Rust panics are no Exception
            answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]}
        print("READ " + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
