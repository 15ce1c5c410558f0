"""One round of ``publish`` as an Airflow task: it fails if any table failed, and says which.

In a DAG file:

    @dag(schedule="*/5 * * * *", start_date=datetime(2025, 1, 1), catchup=False, max_active_runs=1)
    def tables_in_both_formats():
        task(publish, retries=2)("/etc/deltaberg/tables.yaml")
"""

from __future__ import annotations

from typing import Any

from deltaberg import Publisher


def publish(config: str) -> dict[str, Any]:
    """The report of the round, which Airflow keeps as the task's XCom."""
    report = Publisher(config).run_once()
    if report.failed:
        said = "; ".join(f"{each.name}: {each.failure.message}" for each in report.failed if each.failure is not None)
        raise RuntimeError(f"{len(report.failed)} of {len(report.tables)} tables failed: {said}")
    return report.to_json()
