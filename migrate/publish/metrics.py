"""What is known of the tables, as text for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from deltaberg.migrate.publish.publisher import TableRecord

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def metrics_text(records: Mapping[str, TableRecord], *, now_ms: int) -> str:
    """Every metric with its meaning and a line a table."""
    return "".join(f"{line}\n" for line in _lines(tuple(records.items()), now_ms))


def _lines(tables: tuple[tuple[str, TableRecord], ...], now_ms: int) -> Iterator[str]:
    yield from _metric("tables", "gauge", "Tables in the configuration.", [((), len(tables))])
    yield from _metric(
        "up",
        "gauge",
        "1 where the last turn of the table succeeded, 0 where it failed.",
        [(_of(name), float(each.last_error is None)) for name, each in tables if each.last is not None],
    )
    yield from _metric(
        "lag_commits",
        "gauge",
        "Source commits that the target lacked at the last look.",
        [(_of(name), each.job.lag_commits) for name, each in tables],
    )
    yield from _metric(
        "lag_seconds",
        "gauge",
        "How long ago the source committed what the target lacked at the last look.",
        [(_of(name), each.job.lag_seconds(now_ms)) for name, each in tables],
    )
    yield from _metric(
        "last_success_timestamp_seconds",
        "gauge",
        "When the table was last found or made current.",
        [(_of(name), each.last_success_ms / 1000) for name, each in tables if each.last_success_ms is not None],
    )
    yield from _metric(
        "failures_total",
        "counter",
        "Turns that failed, by code.",
        [
            ((*_of(name), ("code", code)), count)
            for name, each in tables
            for code, count in sorted(dict(each.failures).items())
        ],
    )
    yield from _metric(
        "commits_total", "counter", "Commits made in the target.", [(_of(name), each.commits) for name, each in tables]
    )
    yield "# HELP deltaberg_sync_duration_seconds How long syncs took."
    yield "# TYPE deltaberg_sync_duration_seconds summary"
    for name, each in tables:
        yield _sample("sync_duration_seconds_sum", _of(name), each.sync_seconds)
        yield _sample("sync_duration_seconds_count", _of(name), each.syncs)


Labels = tuple[tuple[str, str], ...]


def _of(name: str) -> Labels:
    return (("table", name),)


def _metric(name: str, kind: str, meaning: str, samples: Iterable[tuple[Labels, float | None]]) -> Iterator[str]:
    yield f"# HELP deltaberg_{name} {meaning}"
    yield f"# TYPE deltaberg_{name} {kind}"
    for labels, value in samples:
        if value is not None:
            yield _sample(name, labels, value)


def _sample(name: str, labels: Labels, value: float) -> str:
    said = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
    return f"deltaberg_{name}{'{' + said + '}' if said else ''} {value:.15g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
