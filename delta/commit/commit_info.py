"""The ``commitInfo`` that deltaberg writes (PROTOCOL "Commit Provenance Information", "In-Commit Timestamps")."""

from __future__ import annotations

import json
from collections.abc import Mapping

from deltaberg import __version__

ENGINE_INFO = f"deltaberg/{__version__}"


def commit_info(
    *,
    operation: str,
    parameters: Mapping[str, object],
    metrics: Mapping[str, str],
    timestamp_ms: int,
    in_commit_timestamp_ms: int | None,
    read_version: int | None,
    blind_append: bool,
    transaction_id: str,
    extra: Mapping[str, object],
) -> dict[str, object]:
    """The action's JSON object. Values of ``parameters`` that are not texts become JSON text, as the engines expect."""
    body: dict[str, object] = {}
    if in_commit_timestamp_ms is not None:
        body["inCommitTimestamp"] = in_commit_timestamp_ms
    body["timestamp"] = timestamp_ms
    body["operation"] = operation
    body["operationParameters"] = {
        name: value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        for name, value in parameters.items()
    }
    if read_version is not None:
        body["readVersion"] = read_version
    return {
        **body,
        "isolationLevel": "Serializable",
        "isBlindAppend": blind_append,
        "operationMetrics": dict(metrics),
        "engineInfo": ENGINE_INFO,
        "txnId": transaction_id,
        **extra,
    }
