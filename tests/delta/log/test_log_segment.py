"""Names in the log mean what the protocol says, and a version is rebuilt from the right files or not at all."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.delta.errors import CorruptLog, NotADeltaTable, VersionNotFound
from deltaberg.delta.log.log_path import LogFile, LogFileKind, parse_log_file
from deltaberg.delta.log.log_segment import LogSegment, build_segment

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
N = "00000000000000000010"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (f"{N}.json", LogFileKind.COMMIT),
        (f"{N}.crc", LogFileKind.CHECKSUM),
        (f"{N}.00000000000000000012.compacted.json", LogFileKind.COMPACTION),
        (f"{N}.checkpoint.parquet", LogFileKind.CLASSIC_CHECKPOINT),
        (f"{N}.checkpoint.0000000001.0000000003.parquet", LogFileKind.CHECKPOINT_PART),
        (f"{N}.checkpoint.{UUID}.json", LogFileKind.UUID_CHECKPOINT),
        (f"{N}.checkpoint.{UUID}.parquet", LogFileKind.UUID_CHECKPOINT),
    ],
)
def test_a_name_says_what_a_file_is(name: str, kind: LogFileKind) -> None:
    file = parse_log_file(f"s3://b/t/_delta_log/{name}", size=3, modified_ms=4)
    assert file is not None
    assert (file.version, file.kind, file.name, file.size, file.modified_ms) == (10, kind, name, 3, 4)
    assert file.form == ("parquet" if name.endswith("parquet") else "json")


@pytest.mark.parametrize(
    "name",
    [
        "_last_checkpoint",
        "10.json",
        f"{N}.json.tmp",
        f".{N}.json",
        f"._{N}.json",
        f"{N}.JSON",
        f"{N}.{UUID}.json",
        f"{N}.checkpoint.json",
        f"{N}.checkpoint.0000000004.0000000003.parquet",
        f"{N}.checkpoint.0000000000.0000000003.parquet",
        f"{N}.checkpoint.1.3.parquet",
        f"{N}.00000000000000000010.compacted.json",
        f"{N}.00000000000000000009.compacted.json",
        "99999999999999999999.json",
        "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠١٠.json",
        "",
    ],
)
def test_other_names_are_not_of_the_log(name: str) -> None:
    assert parse_log_file(f"/t/_delta_log/{name}") is None


def commit(version: int) -> str:
    return f"{version:020d}.json"


def classic(version: int) -> str:
    return f"{version:020d}.checkpoint.parquet"


def part(version: int, number: int, parts: int) -> str:
    return f"{version:020d}.checkpoint.{number:010d}.{parts:010d}.parquet"


def v2(version: int, form: str = "parquet") -> str:
    return f"{version:020d}.checkpoint.{UUID}.{form}"


def compaction(start: int, end: int) -> str:
    return f"{start:020d}.{end:020d}.compacted.json"


def segment(*names: str, version: int | None = None) -> LogSegment:
    return segment_of(dict.fromkeys(names, 9), version=version)


def segment_of(sizes: dict[str, int], version: int | None = None) -> LogSegment:
    files = [parse_log_file(name, size=size) for name, size in sizes.items()]
    assert all(file is not None for file in files)
    return build_segment([file for file in files if file is not None], version=version)


def names(files: tuple[LogFile, ...]) -> list[str]:
    return [file.name for file in files]


def test_commits_alone_are_replayed_from_the_first() -> None:
    found = segment(commit(0), commit(1), commit(2), "00000000000000000002.crc")
    assert (found.version, found.checkpoint) == (2, None)
    assert names(found.deltas) == [commit(0), commit(1), commit(2)]
    assert found.commit is not None
    assert found.checksum is not None


def test_the_newest_checkpoint_not_after_the_version_is_used() -> None:
    log = [*map(commit, range(12)), classic(5), classic(10)]
    for version, base in ((None, 10), (11, 10), (10, 10), (9, 5), (5, 5)):
        found = segment(*log, version=version)
        assert found.checkpoint is not None
        assert found.checkpoint.version == base
        assert names(found.deltas) == [commit(number) for number in range(base + 1, found.version + 1)]
    assert segment(*log, version=4).checkpoint is None


def test_a_multi_part_checkpoint_counts_when_every_part_is_there() -> None:
    log = [*map(commit, range(6)), part(4, 1, 2), part(4, 2, 2)]
    found = segment(*log)
    assert found.checkpoint is not None
    assert names(found.checkpoint.files) == [part(4, 1, 2), part(4, 2, 2)]
    assert segment(*log[:-1]).checkpoint is None


@pytest.mark.parametrize("names", [[classic(4)], [v2(4)], [v2(4, "json")], [part(4, 1, 2), part(4, 2, 2)]])
def test_a_checkpoint_with_an_empty_file_does_not_count(names: list[str]) -> None:
    commits = dict.fromkeys(map(commit, range(6)), 9)
    older = {classic(2): 9}
    for written in ({}, older):
        found = segment_of({**commits, **written, **dict.fromkeys(names, 9), names[-1]: 0})
        assert (found.checkpoint and found.checkpoint.version) == (2 if written else None)
        assert found.version == 5
    with pytest.raises(CorruptLog, match=r"00000000000000000000\.json"):
        segment_of({commit(4): 9, commit(5): 9, **dict.fromkeys(names, 0)})


def test_parts_of_two_attempts_are_not_mixed() -> None:
    found = segment(commit(4), commit(5), part(4, 1, 3), part(4, 2, 3), part(4, 1, 2), part(4, 2, 2), part(4, 3, 4))
    assert found.checkpoint is not None
    assert names(found.checkpoint.files) == [part(4, 1, 2), part(4, 2, 2)]


def test_of_several_checkpoints_of_one_version_the_v2_one_in_parquet_is_used() -> None:
    candidates = [classic(4), v2(4), v2(4, "json"), part(4, 1, 2), part(4, 2, 2)]
    for order in itertools.permutations(candidates):
        found = segment(commit(4), *order)
        assert found.checkpoint is not None
        assert names(found.checkpoint.files) == [v2(4)]


def test_a_checkpoint_without_any_commit_is_a_table() -> None:
    found = segment(classic(7))
    assert (found.version, found.deltas, found.commit) == (7, (), None)


def test_a_gap_names_the_missing_commit() -> None:
    with pytest.raises(CorruptLog, match=rf"the log has a gap, commit 2 \({commit(2)}\) is missing") as caught:
        segment(commit(0), commit(1), commit(3))
    assert (caught.value.version, caught.value.path) == (3, commit(2))
    with pytest.raises(CorruptLog, match="commit 6"):
        segment(commit(4), classic(5), commit(7))


def test_a_gap_before_the_checkpoint_does_not_matter() -> None:
    assert segment(commit(0), commit(2), classic(2), commit(3)).version == 3


def test_a_log_without_its_beginning_names_it() -> None:
    with pytest.raises(CorruptLog, match=rf"{commit(0)} is missing and no complete checkpoint"):
        segment(commit(3), commit(4), part(4, 1, 2))


def test_a_version_that_was_cleaned_up_is_told_from_one_that_never_was() -> None:
    log = [classic(10), commit(10), commit(11)]
    with pytest.raises(VersionNotFound, match="the log before version 10 was cleaned up") as caught:
        segment(*log, version=7)
    assert caught.value.exit_code == 2
    for version in (12, -1):
        with pytest.raises(VersionNotFound, match=r"has no such version \(the newest is 11\)"):
            segment(*log, version=version)


def test_a_folder_without_commits_and_checkpoints_is_no_table() -> None:
    with pytest.raises(NotADeltaTable):
        segment("00000000000000000000.crc", part(4, 1, 2))


def test_a_compaction_stands_in_for_missing_commits() -> None:
    found = segment(commit(0), compaction(1, 3), commit(4), commit(2))
    assert names(found.deltas) == [commit(0), compaction(1, 3), commit(4)]
    found = segment(commit(0), commit(1), compaction(1, 3), compaction(1, 2), commit(4))
    assert names(found.deltas) == [commit(0), compaction(1, 3), commit(4)]


def test_commits_go_before_compactions() -> None:
    found = segment(*map(commit, range(5)), compaction(0, 3), compaction(1, 4))
    assert names(found.deltas) == [commit(number) for number in range(5)]


def test_a_compaction_that_reaches_past_the_version_or_below_the_checkpoint_is_not_used() -> None:
    with pytest.raises(CorruptLog, match="commit 2"):
        segment(commit(0), commit(1), compaction(1, 4), commit(3), commit(4), version=3)
    with pytest.raises(CorruptLog, match="commit 3"):
        segment(classic(2), compaction(1, 4), commit(4))


def test_overlapping_compactions_cannot_fill_a_gap_together() -> None:
    with pytest.raises(CorruptLog, match="commit 3"):
        segment(commit(0), compaction(1, 2), compaction(2, 3), commit(4))


@given(
    st.sets(st.integers(0, 8)),
    st.sets(st.integers(0, 8), max_size=2),
    st.sets(st.tuples(st.integers(0, 7), st.integers(1, 8)).filter(lambda pair: pair[0] < pair[1]), max_size=3),
    st.none() | st.integers(0, 8),
)
def test_a_segment_covers_every_version_exactly_once(
    commits: set[int], checkpoints: set[int], compactions: set[tuple[int, int]], version: int | None
) -> None:
    log = [*map(commit, commits), *map(classic, checkpoints), *itertools.starmap(compaction, compactions)]
    try:
        found = segment(*log, version=version)
    except (CorruptLog, VersionNotFound, NotADeltaTable):
        return
    base = -1 if found.checkpoint is None else found.checkpoint.version
    covered = [
        number
        for file in found.deltas
        for number in range(file.version, (file.version if file.end_version is None else file.end_version) + 1)
    ]
    assert covered == list(range(base + 1, found.version + 1))
    assert version is None or found.version == version
