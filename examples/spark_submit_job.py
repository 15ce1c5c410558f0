"""Convert Iceberg and Delta tables in one Spark job.

    spark-submit --py-files deltaberg-0.1.0-py3-none-any.whl spark_submit_job.py tables.json --report s3://lake/report.json

``tables.json`` lists the tables and how each is converted (docs/spark.md):

    {"defaults": {"to": "delta", "verify": "rows"},
     "tables": [{"source": "s3://lake/sales/orders"}, {"source": "s3://lake/web/visits", "target": "s3://lake/delta/visits"}]}

One table without a list: ``spark-submit ... spark_submit_job.py --source s3://lake/sales/orders --to delta``.
Each table is told of when it is done, then a summary follows. Exit code: 0 all done, 1 one failed, 2 the list is wrong,
3 one was refused, 4 one differs from its source, 5 somebody else changed a target.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from deltaberg.batch_file import read_tables
from deltaberg.errors import DeltabergError
from deltaberg.migrate.spark import convert_many
from deltaberg.migrate.spark.batch import AT_ONCE, TableOutcome, TableRequest
from deltaberg.migrate.spark.session import spark_session
from deltaberg.storage import absolute_location, open_storage


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = parser().parse_args(arguments)
    try:
        wanted = requests(chosen)
        done = convert_many(spark_session(), wanted, at_once=chosen.at_once, on_done=tell)
        print(done.summary())
        if chosen.report:
            document = json.dumps(done.to_json(), indent=1, ensure_ascii=False)
            open_storage().put(absolute_location(chosen.report), document.encode())
    except DeltabergError as error:
        print(f"deltaberg: {error}", file=sys.stderr)
        return error.exit_code
    return done.exit_code


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description="Convert Iceberg and Delta tables in one Spark job.")
    made.add_argument("tables", nargs="?", help="JSON file that lists the tables; a path or URL")
    made.add_argument("--source", help="one table instead of a list: its folder or URL")
    made.add_argument("--to", choices=("iceberg", "delta"), help="the format of --source's target")
    made.add_argument("--target", help="where --source's target goes; by default beside or inside the source")
    made.add_argument(
        "--verify", choices=("none", "metadata", "rows"), default="none", help="compare --source's target"
    )
    made.add_argument("--report", help="where to write a JSON report; a path or URL")
    made.add_argument("--at-once", type=int, default=AT_ONCE, help="tables to work on at a time (default: %(default)s)")
    return made


def requests(chosen: argparse.Namespace) -> tuple[TableRequest, ...]:
    if (chosen.tables is None) == (chosen.source is None) or (chosen.source is None) != (chosen.to is None):
        parser().error("give either a list of tables, or --source and --to")
    if chosen.tables is not None:
        return read_tables(open_storage().get(absolute_location(chosen.tables)), name=chosen.tables)
    one = {"source": chosen.source, "to": chosen.to, "target": chosen.target, "verify": chosen.verify}
    return read_tables(json.dumps([one]))


def tell(outcome: TableOutcome) -> None:
    print(f"{outcome.status}: {outcome.name} ({outcome.seconds:.1f} s) {outcome.error or ''}".rstrip(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
