"""The names that users import are chosen, not accidents."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import deltaberg

EXPORTS = [
    "CommitStateUnknown",
    "Conflict",
    "ConvertOptions",
    "ConvertResult",
    "DeltabergError",
    "HistoryReport",
    "Inspection",
    "Interrupted",
    "NotATable",
    "Plan",
    "PublishReport",
    "Publisher",
    "RollbackReport",
    "SyncResult",
    "TableScan",
    "Unsupported",
    "UsageError",
    "VerificationFailed",
    "VerifyReport",
    "convert",
    "history",
    "inspect",
    "plan",
    "rollback",
    "scan",
    "sync",
    "verify",
]


def test_the_exports_are_these() -> None:
    assert deltaberg.__all__ == EXPORTS


def test_every_export_can_be_had() -> None:
    for name in deltaberg.__all__:
        assert getattr(deltaberg, name).__name__ == name
        assert name in dir(deltaberg)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(deltaberg, "transmogrify")


def test_results_are_frozen_dataclasses_with_a_json_form() -> None:
    for result in (
        deltaberg.ConvertResult,
        deltaberg.HistoryReport,
        deltaberg.Inspection,
        deltaberg.Plan,
        deltaberg.PublishReport,
        deltaberg.RollbackReport,
        deltaberg.VerifyReport,
    ):
        assert dataclasses.is_dataclass(result)
        assert result.__dataclass_params__.frozen
        assert callable(result.to_json)


def test_importing_the_package_and_its_command_loads_nothing_heavy() -> None:
    heavy = "{'pyarrow', 'numpy', 'obstore', 'fastavro', 'pyroaring', 'pyspark', 'rich', 'pyiceberg', 'deltalake'}"
    code = f"import sys, deltaberg, deltaberg.cli.main; print(sorted({heavy} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert loaded == "[]\n"
