"""Finding the current metadata file, however it is named and whatever the hint says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from deltaberg.iceberg.errors import AmbiguousMetadata, CorruptMetadata, NotAnIcebergTable
from deltaberg.iceberg.metadata.metadata_location import (
    MetadataName,
    catalog_metadata_name,
    file_system_metadata_name,
    find_metadata,
    is_metadata_file,
)
from deltaberg.storage import open_storage

UUID = "89e30576-bd09-4576-be23-407c86bdc50b"
OTHER = "19739cda-f528-4429-84cc-377ffdd24c75"


@pytest.fixture
def table_with(tmp_path: Path) -> Callable[..., str]:
    """The folder of a table with metadata files of some names, each naming those it follows in its log."""

    def make(
        names: Iterable[str],
        hint: str | None = None,
        logs: dict[str, list[str]] | None = None,
        uuids: dict[str, str] | None = None,
        times: dict[str, int] | None = None,
    ) -> str:
        folder = tmp_path / "t" / "metadata"
        folder.mkdir(parents=True)
        for name in names:
            log = [
                {"metadata-file": f"s3://b/t/metadata/{each}", "timestamp-ms": 1} for each in (logs or {}).get(name, [])
            ]
            value = {
                "format-version": 1,
                "location": "s3://b/t",
                "last-updated-ms": (times or {}).get(name, 1),
                "last-column-id": 0,
                "schema": {"type": "struct", "fields": []},
                "partition-spec": [],
                "metadata-log": log,
                **({"table-uuid": uuids[name]} if uuids and name in uuids else {}),
            }
            (folder / name).write_text(json.dumps(value))
        if hint is not None:
            (folder / "version-hint.text").write_text(hint)
        return str(tmp_path / "t")

    return make


@pytest.mark.parametrize(
    ("names", "hint", "current"),
    [
        (["v1.metadata.json", "v2.metadata.json"], "2", "v2.metadata.json"),
        (["v1.metadata.json", "v2.metadata.json"], None, "v2.metadata.json"),
        (["v9.metadata.json", "v10.metadata.json"], None, "v10.metadata.json"),
        (["v1.metadata.json", "v2.metadata.json", "v3.metadata.json"], "1", "v3.metadata.json"),
        (["v3.metadata.json", "v5.metadata.json"], "1", "v5.metadata.json"),
        (["v1.metadata.json"], "1\n", "v1.metadata.json"),
        (["v1.metadata.json", "v2.metadata.json"], "rubbish", "v2.metadata.json"),
        (["v1.metadata.json", "v2.metadata.json"], "../../etc", "v2.metadata.json"),
        (["v1.metadata.json", "v2.metadata.json"], "", "v2.metadata.json"),
        (["v1.gz.metadata.json", "v2.gz.metadata.json"], "2", "v2.gz.metadata.json"),
        (["v1.metadata.json", "v2.metadata.json.gz"], None, "v2.metadata.json.gz"),
        ([f"00000-{OTHER}.metadata.json", f"00001-{UUID}.gz.metadata.json"], None, f"00001-{UUID}.gz.metadata.json"),
        ([f"00009-{OTHER}.metadata.json", f"00010-{UUID}.metadata.json"], None, f"00010-{UUID}.metadata.json"),
        (
            [f"00001-{OTHER}.metadata.json", f"00001-{UUID}.metadata.json"],
            f"00001-{UUID}",
            f"00001-{UUID}.metadata.json",
        ),
        (["v1.metadata.json", f"{UUID}.metadata.json"], None, "v1.metadata.json"),
        (["v1749025517.metadata.json", "v0.metadata.json"], "1749025517", "v1749025517.metadata.json"),
    ],
)
def test_the_current_file_is_found(
    table_with: Callable[..., str], names: list[str], hint: str | None, current: str
) -> None:
    folder = table_with(names, hint)
    assert find_metadata(open_storage(), folder) == f"{folder}/metadata/{current}"


def test_a_table_whose_metadata_stands_in_the_folder_itself_is_found(table_with: Callable[..., str]) -> None:
    folder = table_with(["v1.metadata.json"])
    assert find_metadata(open_storage(), f"{folder}/metadata") == f"{folder}/metadata/v1.metadata.json"


def test_a_hint_beyond_the_files_means_that_one_is_missing(table_with: Callable[..., str]) -> None:
    folder = table_with(["v1.metadata.json"], "3")
    with pytest.raises(CorruptMetadata, match="says version 3 and the newest metadata file is of version 1"):
        find_metadata(open_storage(), folder)


@pytest.mark.parametrize("names", [[], ["vfinal.metadata.json"], [f"{UUID}.metadata.json"]])
def test_a_folder_without_named_metadata_is_no_table(table_with: Callable[..., str], names: list[str]) -> None:
    folder = table_with(names)
    with pytest.raises(NotAnIcebergTable, match=r"no metadata file v<N>\.metadata\.json") as caught:
        find_metadata(open_storage(), folder)
    assert all(name in caught.value.message for name in names)


def test_a_folder_that_does_not_exist_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(NotAnIcebergTable, match="no metadata file"):
        find_metadata(open_storage(), str(tmp_path / "absent"))


V1, V2, V5 = (f"v{version}.metadata.json" for version in (1, 2, 5))
FIRST, SECOND = (f"0000{version}-{UUID}.metadata.json" for version in (0, 1))
OTHER_FIRST, OTHER_SECOND, OTHER_THIRD = (f"0000{version}-{OTHER}.metadata.json" for version in (0, 1, 2))


@pytest.mark.parametrize("hint", [None, "1", "2", "5"])
@pytest.mark.parametrize(
    ("one", "other"),
    [(OTHER_SECOND, SECOND), (V2, "v2.gz.metadata.json"), (V5, SECOND), (FIRST, V5), (SECOND, V5)],
)
def test_of_two_candidates_the_one_that_logs_the_other_is_current(
    table_with: Callable[..., str], one: str, other: str, hint: str | None
) -> None:
    hint = hint if V5 in (one, other) else None
    folder = table_with([one, other], hint, logs={one: [other]})
    assert find_metadata(open_storage(), folder).endswith(f"/{one}")


@pytest.mark.parametrize("hint", [None, "1", UUID, "v5", f"00001-{UUID}"])
@pytest.mark.parametrize(
    ("names", "logs"),
    [
        ([V1, V5, FIRST, SECOND], {V5: [V1], SECOND: [FIRST]}),
        ([V1, V5, FIRST, SECOND], {V5: [V1], SECOND: [V1, FIRST]}),
        ([V5, SECOND], {V5: [SECOND], SECOND: [V5]}),
    ],
    ids=["strangers", "forked", "each logs the other"],
)
def test_a_catalogs_commits_beside_those_of_the_folder_are_not_guessed_between(
    table_with: Callable[..., str], names: list[str], logs: dict[str, list[str]], hint: str | None
) -> None:
    with pytest.raises(AmbiguousMetadata, match=f"{SECOND} or {V5}") as caught:
        find_metadata(open_storage(), table_with(names, hint, logs))
    assert caught.value.exit_code == 2
    assert "by the path of the file that its catalog names" in caught.value.message


def test_a_log_that_was_cut_is_followed_back_through_the_files_that_are_there(table_with: Callable[..., str]) -> None:
    names = [V1, *(f"{version:05}-{UUID}.metadata.json" for version in range(6))]
    logs = {names[at]: names[max(0, at - 2) : at] for at in range(1, 7)}
    folder = table_with(names, "1", logs)
    assert find_metadata(open_storage(), folder).endswith(f"/{names[-1]}")
    Path(folder, "metadata", names[3]).unlink()
    Path(folder, "metadata", names[4]).unlink()
    with pytest.raises(AmbiguousMetadata):
        find_metadata(open_storage(), folder)


def test_a_file_of_another_table_is_no_predecessor_though_its_name_is_logged(table_with: Callable[..., str]) -> None:
    for uuids, unproven in (({V1: UUID, FIRST: UUID.upper()}, False), ({V1: OTHER, FIRST: UUID}, True)):
        folder = table_with([V1, FIRST], "1", {FIRST: [V1]}, uuids)
        if unproven:
            with pytest.raises(AmbiguousMetadata, match=f"{FIRST} or {V1}"):
                find_metadata(open_storage(), folder)
        else:
            assert find_metadata(open_storage(), folder).endswith(f"/{FIRST}")
        shutil.rmtree(folder)


def test_two_heads_of_one_number_are_not_guessed_between(table_with: Callable[..., str]) -> None:
    folder = table_with([FIRST, SECOND, OTHER_SECOND], logs={SECOND: [FIRST], OTHER_SECOND: [FIRST]})
    with pytest.raises(AmbiguousMetadata, match=f"{OTHER_SECOND} or {SECOND}"):
        find_metadata(open_storage(), folder)


def test_a_hint_that_spells_out_an_older_file_is_stale(table_with: Callable[..., str]) -> None:
    folder = table_with([FIRST, SECOND], FIRST.partition(".")[0], {SECOND: [FIRST]})
    assert find_metadata(open_storage(), folder).endswith(f"/{SECOND}")


@pytest.mark.parametrize("hinted", [FIRST, "vfinal.metadata.json"])
def test_a_hint_that_spells_out_a_file_of_another_line_proves_nothing(
    table_with: Callable[..., str], hinted: str
) -> None:
    folder = table_with([hinted, OTHER_SECOND], hinted.partition(".")[0])
    with pytest.raises(AmbiguousMetadata):
        find_metadata(open_storage(), folder)


@pytest.mark.parametrize(("time", "later"), [(10, False), (20, False), (21, True)])
def test_a_catalogs_table_that_went_on_under_lower_numbers_is_not_taken_for_old(
    table_with: Callable[..., str], time: int, later: bool
) -> None:
    """A table that is dropped and created again in one place begins at 0; a lost race leaves a file that is older."""
    logs = {OTHER_SECOND: [OTHER_FIRST], OTHER_THIRD: [OTHER_FIRST, OTHER_SECOND]}
    folder = table_with(
        [OTHER_FIRST, OTHER_SECOND, OTHER_THIRD, FIRST], None, logs, times={OTHER_THIRD: 20, FIRST: time}
    )
    if later:
        with pytest.raises(AmbiguousMetadata, match=f"{FIRST} or {OTHER_THIRD}"):
            find_metadata(open_storage(), folder)
    else:
        assert find_metadata(open_storage(), folder).endswith(f"/{OTHER_THIRD}")


def test_names_are_written_as_they_are_read() -> None:
    assert MetadataName.parse(file_system_metadata_name(7)) == MetadataName(
        name="v7.metadata.json", version=7, from_catalog=False
    )
    assert MetadataName.parse(catalog_metadata_name(12, UUID, gzip=True)) == MetadataName(
        name=f"00012-{UUID}.gz.metadata.json", version=12, from_catalog=True
    )
    assert MetadataName.parse("12345678-1234-1234-1234-123456789012.metadata.json") is None


@pytest.mark.parametrize(
    ("location", "is_file"),
    [
        ("/a/v1.metadata.json", True),
        ("s3://b/t/metadata/00001-x.gz.metadata.json", True),
        ("/a/v1.metadata.json.gz", True),
        ("/a/metadata.json", False),
        ("/a/t", False),
        ("/a/t.metadata.json/data", False),
    ],
)
def test_a_metadata_file_is_told_from_a_folder(location: str, is_file: bool) -> None:
    assert is_metadata_file(location) is is_file
