"""The newest action of a file wins, across commits, compactions and checkpoints; contradictions are named."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltaberg.delta.errors import CorruptLog, UnsupportedDeltaFeature
from deltaberg.delta.snapshot import Snapshot
from deltaberg.delta.table import DeltaTable
from deltaberg.storage import open_storage

Log = Any


def opened(log: Log, version: int | None = None) -> Snapshot:
    return DeltaTable.open(str(log.root), open_storage()).snapshot(version)


def live(log: Log, version: int | None = None) -> dict[str, Any]:
    rows = [row for batch in opened(log, version).add_files() for row in batch.to_pylist()]
    found = {row["path"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def tombstones(log: Log) -> list[str]:
    return [row["path"] for batch in opened(log).remove_files() for row in batch.to_pylist()]


def test_an_add_a_remove_and_a_new_add_follow_each_other(log: Log) -> None:
    log.create(log.add("a"), log.add("b"))
    log.commit(1, log.remove("a"))
    log.commit(2, log.add("a", size=7))
    assert set(live(log, 0)) == {"a", "b"}
    assert set(live(log, 1)) == {"b"}
    assert live(log, 2)["a"]["size"] == 7
    assert tombstones(log) == []


def test_the_newest_add_of_a_file_replaces_what_was_known_of_it(log: Log) -> None:
    log.create(log.add("a", tags={"x": "1"}, stats='{"numRecords":1}'))
    log.commit(1, log.add("a", baseRowId=5, stats='{"numRecords":2}', dataChange=False))
    row = live(log)["a"]
    assert (row["base_row_id"], row["stats"]["num_records"], row["tags"]) == (5, 2, None)


def test_a_remove_of_nothing_is_a_tombstone(log: Log) -> None:
    log.create()
    log.commit(1, log.remove("never"))
    assert live(log) == {}
    assert tombstones(log) == ["never"]


def test_a_remove_may_spell_the_path_differently(log: Log) -> None:
    log.create(log.add("file:///data/a%20b"), log.add("c%64"))
    log.commit(1, log.remove("/data/a b"), log.remove("cd"))
    assert live(log) == {}


def test_a_deletion_vector_makes_another_logical_file_of_the_same_path(log: Log) -> None:
    log.create(log.add("a"))
    log.commit(1, log.remove("a"), log.add("a", deletionVector=log.vector("1")))
    log.commit(2, log.add("a", deletionVector=log.vector("2")), log.remove("a", deletionVector=log.vector("1")))
    assert live(log, 1)["a"]["deletion_vector"]["path_or_inline_dv"].endswith("1")
    vector = live(log, 2)["a"]["deletion_vector"]
    assert vector == {
        "storage_type": "u",
        "path_or_inline_dv": "2".rjust(20, "a"),
        "offset": 1,
        "size_in_bytes": 34,
        "cardinality": 2,
    }
    log.commit(3, log.remove("a"))
    assert set(live(log)) == {"a"}


def test_the_offset_belongs_to_the_identity_of_a_vector(log: Log) -> None:
    log.create(log.add("a", deletionVector=log.vector(offset=1)))
    log.commit(1, log.remove("a", deletionVector=log.vector(offset=None)))
    assert set(live(log)) == {"a"}
    log.commit(2, log.remove("a", deletionVector=log.vector(offset=1)))
    assert live(log) == {}


def test_the_same_file_and_vector_may_be_committed_again(log: Log) -> None:
    log.create(log.add("a", deletionVector=log.vector()))
    log.commit(1, log.add("a", deletionVector=log.vector(), baseRowId=3))
    assert live(log)["a"]["base_row_id"] == 3


Contradiction = tuple[str, Callable[[Log], None], str, int]
CONTRADICTIONS: list[Contradiction] = [
    ("two metaData", lambda log: log.commit(1, log.metadata(), log.metadata()), "two metaData actions", 1),
    ("two protocols", lambda log: log.commit(1, log.protocol(), log.protocol()), "two protocol actions", 1),
    (
        "two txns of one application",
        lambda log: log.commit(1, *[{"txn": {"appId": "a", "version": n}} for n in range(2)]),
        "two txn actions of 'a'",
        1,
    ),
    (
        "two states of one domain",
        lambda log: log.commit(1, *[{"domainMetadata": {"domain": "d", "configuration": str(n)}} for n in range(2)]),
        "two domainMetadata actions of 'd'",
        1,
    ),
    ("added twice", lambda log: log.commit(1, log.add("x"), log.add("x")), "an add of the same path twice (x)", 1),
    (
        "added with two vectors",
        lambda log: log.commit(1, log.add("x"), log.add("x", deletionVector=log.vector())),
        "an add of the same path twice (x)",
        1,
    ),
    (
        "removed twice",
        lambda log: log.commit(1, log.remove("a"), log.remove("a")),
        "two actions for the same file (a)",
        1,
    ),
    (
        "added and removed",
        lambda log: log.commit(1, log.add("x"), log.remove("x")),
        "two actions for the same file (x)",
        1,
    ),
    (
        "live with two vectors",
        lambda log: log.commit(1, log.add("a", deletionVector=log.vector())),
        "a is live twice",
        1,
    ),
]


@pytest.mark.parametrize(
    ("name", "write", "message", "version"), CONTRADICTIONS, ids=[each[0] for each in CONTRADICTIONS]
)
@pytest.mark.parametrize("behind_a_checkpoint", [False, True])
def test_a_contradiction_names_version_and_file(
    log: Log, name: str, write: Callable[[Log], None], message: str, version: int, behind_a_checkpoint: bool
) -> None:
    log.create(log.add("a"))
    if behind_a_checkpoint:
        log.checkpoint(0, log.protocol(), log.metadata(), log.add("a"))
        (log.folder / f"{0:020d}.json").unlink()
    write(log)
    with pytest.raises(CorruptLog) as caught:
        live(log)
    assert message in str(caught.value)
    assert caught.value.version == version
    assert caught.value.table == str(log.root)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 3 is not JSON"),
        ("5", "line 3 is no JSON object"),
        ('{"add":{"path":"x","size":1}', "line 3"),
        ('{"add":{"path":"x","size":1}}}', "line 3"),
        ('{"add":{"size":1}}', "path is missing"),
        ('{"add":{"path":"x"}}', "size is missing"),
        ('{"add":{"path":"x","size":-1}}', "size is negative"),
        ('{"add":{"path":"x","size":"1"}}', "/add/size"),
        ('{"add":{"path":"x","size":1,"stats":{}}}', "/add/stats"),
        (
            '{"add":{"path":"x","size":1,"deletionVector":{"storageType":"u"}}}',
            "deletionVector.pathOrInlineDv is missing",
        ),
        ('{"add":{"path":"x","size":1,"deletionVector":5}}', "/add/deletionVector"),
        ('{"add":{"path":"x","size":1,"tags":{"a":5}}}', "a tag is no text"),
        ('{"add":{"path":"x","size":1}} {"add":{"path":"y","size":1}}', "several JSON objects"),
        ('{"add":{"path":"x","size":1},"remove":{"path":"y"}}', "several file actions or none"),
        ('{"add":{"path":"x","size":1},"txn":{"appId":"a","version":1}}', "a file action and txn"),
        ('{"txn":{"appId":"a","version":1},"add":{"path":"x","size":1}}', "add and txn"),
        ('{"txn":5}', "Cannot read a txn action: it is 5"),
        ('{"add":5}', "add"),
        ('{"add":{"path":"\\ud800","size":1}}', "surrogate"),
        ("[" * 100_000, "line 3 is not JSON"),
    ],
)
def test_a_malformed_line_names_file_and_field(log: Log, line: str, message: str) -> None:
    log.create()
    path = log.commit(1, log.add("good"), log.remove("other"), line, log.add("good2"))
    with pytest.raises(CorruptLog) as caught:
        live(log)
    assert message in str(caught.value)
    assert (caught.value.version, caught.value.path) == (1, str(path))
    assert "line 3" in str(caught.value) or "txn" in message


def test_a_feature_that_nobody_knows_excuses_lines_that_nobody_reads(log: Log) -> None:
    log.create(log.add("a"))
    features = ["cubes"]
    log.commit(
        1, log.protocol(3, 7, readerFeatures=features, writerFeatures=features), {"add": {"path": ["x"], "size": 1}}
    )
    with pytest.raises(UnsupportedDeltaFeature, match="'cubes'"):
        live(log)


@pytest.mark.parametrize("key", [b"path", b"path\xff", b"future"])
def test_bytes_that_are_not_utf8_are_no_json(log: Log, key: bytes) -> None:
    log.create()
    log.write(f"{1:020d}.json", b'{"add":{"path":"a","size":1}}\n{"add":{"' + key + b'":"\xff","size":1}}\n')
    with pytest.raises(CorruptLog, match="line 2 is not UTF-8") as caught:
        live(log)
    assert caught.value.version == 1


def test_an_empty_commit_is_a_write_that_was_cut_off(log: Log) -> None:
    log.create(log.add("a"))
    log.commit(1)
    with pytest.raises(CorruptLog, match="a file is empty") as caught:
        live(log)
    assert caught.value.version == 1


def test_a_commit_may_do_nothing_and_say_things_nobody_knows(log: Log) -> None:
    log.create(log.add("a"))
    log.commit(
        1,
        {"commitInfo": {"add": {}}},
        {"newAction": {"path": "x"}},
        "",
        "  ",
        {"txn": None, "add": log.add("b")["add"]},
    )
    assert set(live(log)) == {"a", "b"}


def test_unknown_fields_and_blanks_are_ignored(log: Log) -> None:
    log.create()
    log.commit(
        1,
        ' { "add" : {"path":"x", "size":1 , "future": {"deep": [1, {"a": null}]}} } \r',
        '{"cdc":{"path":"c","size":1}}',
    )
    assert set(live(log)) == {"x"}


def test_the_last_line_needs_no_newline(log: Log) -> None:
    log.create()
    log.write(f"{1:020d}.json", json.dumps(log.add("x")))
    assert set(live(log)) == {"x"}


def test_tags_of_every_line_stay_with_it(log: Log) -> None:
    log.create(
        log.add("a", tags={"k": "1", "o": '{"x":"}"}'}),
        log.add("b"),
        log.add("c", tags={}),
        log.add("d", tags={"tags": "v", "n": None}),
        log.add("e", stats='{"numRecords":1,"tags":{"a":"b"}}'),
    )
    rows = live(log)
    assert dict(rows["a"]["tags"]) == {"k": "1", "o": '{"x":"}"}'}
    assert rows["b"]["tags"] is None
    assert dict(rows["c"]["tags"]) == {}
    assert dict(rows["d"]["tags"]) == {"tags": "v", "n": None}
    assert rows["e"]["tags"] is None


def test_partition_values_are_read_under_the_columns_of_the_newest_metadata(log: Log) -> None:
    log.create(log.add("old", partitionValues={"id": "1"}), partitionColumns=["id"])
    log.commit(1, log.add("new", partitionValues={"p": "x", "id": "9"}), log.remove("old"))
    log.commit(2, log.metadata(partitionColumns=["p"]))
    assert live(log)["new"]["partition_values"] == {"p": "x"}
    assert live(log, 1)["new"]["partition_values"] == {"id": "9"}


def test_partition_values_that_are_missing_or_empty_are_null(log: Log) -> None:
    log.create(log.add("a", partitionValues={}), log.add("b", partitionValues={"p": ""}), partitionColumns=["p"])
    assert [row["partition_values"] for row in live(log).values()] == [{"p": None}] * 2


def test_transactions_and_domains_follow_the_same_rule(log: Log) -> None:
    log.create({"txn": {"appId": "a", "version": 5}}, {"domainMetadata": {"domain": "d", "configuration": "1"}})
    log.commit(1, {"txn": {"appId": "a", "version": 3}}, {"txn": {"appId": "b", "version": 1, "lastUpdated": 9}})
    log.commit(2, {"domainMetadata": {"domain": "d", "configuration": "1", "removed": True}})
    snapshot = opened(log)
    assert {app: (txn.version, txn.last_updated) for app, txn in snapshot.txns.items()} == {"a": (3, None), "b": (1, 9)}
    assert snapshot.domain_metadata == {}
    assert opened(log, 1).domain_metadata["d"].configuration == "1"


def test_a_large_commit_is_read_in_pieces(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.create(*(log.add(f"a{number}", tags={"n": str(number)}) for number in range(200)))
    log.commit(1, *(log.remove(f"a{number}") for number in range(0, 200, 2)), log.add("last"))
    monkeypatch.setattr("deltaberg.delta.log.commit_reader._PIECE_BYTES", 999)
    rows = live(log)
    assert set(rows) == {f"a{number}" for number in range(1, 200, 2)} | {"last"}
    assert all(row["tags"] == [("n", path[1:])] for path, row in rows.items() if path != "last")
    log.commit(2, log.add("x"), *(log.remove(f"b{number}") for number in range(50)), "{oops")
    with pytest.raises(CorruptLog, match="line 52"):
        live(log)


# A model of the rules on plain Python values: what is live is a dictionary.
STEPS = st.lists(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["add", "remove", "vector"])),
        max_size=3,
        unique_by=lambda step: step[0],
    ),
    min_size=1,
    max_size=6,
)


@given(steps=STEPS, checkpoint=st.none() | st.integers(0, 5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_replay_agrees_with_a_dictionary(
    steps: list[list[tuple[str, str]]], checkpoint: int | None, tmp_path_factory: pytest.TempPathFactory, log: Log
) -> None:
    fresh = type(log)(tmp_path_factory.mktemp("model"))
    fresh.create()
    state: dict[str, tuple[int, str | None]] = {}
    for version, actions in enumerate(steps, start=1):
        lines: list[dict[str, object]] = [{"commitInfo": {}}]
        for path, what in actions:
            known = state.get(path)
            if known is not None and (what != "add" or known[1] is not None):
                vector = {} if known[1] is None else {"deletionVector": fresh.vector(known[1])}
                lines.append(fresh.remove(path, **vector))
                del state[path]
            if what != "remove":
                name = f"v{version}" if what == "vector" else None
                extra = {} if name is None else {"deletionVector": fresh.vector(name)}
                lines.append(fresh.add(path, size=version, **extra))
                state[path] = (version, name)
        fresh.commit(version, *lines)
        if checkpoint == version:
            adds = [
                fresh.add(path, size=size, **({} if name is None else {"deletionVector": fresh.vector(name)}))
                for path, (size, name) in state.items()
            ]
            fresh.checkpoint(version, fresh.protocol(), fresh.metadata(), *adds)
    found = {
        path: (row["size"], row["deletion_vector"] and row["deletion_vector"]["path_or_inline_dv"].lstrip("a"))
        for path, row in live(fresh).items()
    }
    assert found == {path: (size, name) for path, (size, name) in state.items()}
