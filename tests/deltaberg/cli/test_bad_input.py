"""What a person gets wrong and what a disk breaks: one clear line each, the right exit code, nothing half-written."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

VERBS = ("inspect", "scan", "history", "plan", "convert")


def arguments(verb: str, table: Path, to: str = "iceberg") -> list[object]:
    return [verb, table, "--to", to] if verb in {"plan", "convert"} else [verb, table]


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def assert_one_line(outcome: Any, code: int, pattern: str) -> None:
    assert outcome.code == code, outcome.err
    if code != 3:
        assert outcome.out == ""
    lines = outcome.err.splitlines()
    assert len(lines) == 1, outcome.err
    assert re.search(pattern, lines[0]), lines[0]
    assert lines[0].startswith("deltaberg: ")


def code_of(verb: str) -> int:
    """What cannot be read has failed; what a plan says about it is a refusal."""
    return 3 if verb in {"plan", "convert"} else 1


@pytest.mark.parametrize("verb", VERBS)
def test_a_folder_that_is_no_table(verb: str, command: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert_one_line(
        command(*arguments(verb, tmp_path)),
        code_of(verb),
        f"Cannot open {tmp_path}: expected an Iceberg table .* or a Delta table .*, found neither",
    )
    assert files_below(tmp_path) == {"notes.txt"}


@pytest.mark.parametrize("verb", VERBS)
def test_a_folder_that_does_not_exist(verb: str, command: Any, tmp_path: Path) -> None:
    assert_one_line(command(*arguments(verb, tmp_path / "absent")), code_of(verb), f"Cannot open {tmp_path}/absent")
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize("verb", VERBS)
def test_a_file_that_is_no_table(verb: str, command: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert_one_line(
        command(*arguments(verb, tmp_path / "notes.txt")), code_of(verb), "Cannot open .*notes.txt: it is a file"
    )


def test_an_error_is_a_document_too_with_json(command: Any, tmp_path: Path) -> None:
    outcome = command("inspect", tmp_path, "--json")
    assert outcome.code == 1
    assert outcome.document["error"]["type"] == "NotATable"
    assert outcome.document["error"]["exit_code"] == 1
    assert outcome.document["error"]["table"] == str(tmp_path)
    assert outcome.document["error"]["message"] in outcome.err


def test_a_traceback_is_shown_only_on_request(command: Any, tmp_path: Path) -> None:
    assert "Traceback" not in command("inspect", tmp_path).err
    verbose = command("inspect", tmp_path, "-v")
    assert verbose.err.startswith("Traceback")
    assert verbose.err.splitlines()[-1].startswith(f"deltaberg: Cannot open {tmp_path}")


def test_a_defect_of_ours_is_one_line_too() -> None:
    code = (
        "import deltaberg.api, deltaberg.cli.main as m\n"
        "def broken(*a, **k): raise ZeroDivisionError('oh\\nno')\n"
        "deltaberg.api.inspect = broken\n"
        "m.main(['inspect', 't'])"
    )
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert outcome.returncode == 1
    assert outcome.stderr == (
        "deltaberg: a defect in deltaberg, please report it with the output of -v: ZeroDivisionError: oh no\n"
    )


@pytest.mark.parametrize("verb", ["inspect", "scan", "history"])
def test_both_formats_in_one_folder(verb: str, command: Any, delta_folder: Path, another_iceberg: Any) -> None:
    """Not guessed: the command names the option that says which."""
    other = another_iceberg("twin")
    (other / "metadata").rename(delta_folder / "metadata")
    assert_one_line(command(verb, delta_folder), 2, "holds an Iceberg and a Delta table; choose with --format")
    assert command(verb, delta_folder, "--format", "delta").code == 0


def test_the_source_of_a_verification_holds_both_formats(
    command: Any, delta_folder: Path, another_iceberg: Any, tmp_path: Path
) -> None:
    """The option that says which is another one there."""
    target = tmp_path / "target"
    assert command("convert", delta_folder, "--to", "iceberg", "--target", target).code == 0
    (another_iceberg("twin") / "metadata").rename(delta_folder / "metadata")
    assert_one_line(
        command("verify", delta_folder, target), 2, r"choose with .*\(verify: with --to, the format of the t"
    )
    assert command("verify", delta_folder, target, "--to", "iceberg").code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["scan"], "Missing argument 'TABLE'"),
        (["plan", "t"], "Missing option '--to'"),
        (["plan", "t", "--to", "hudi"], "Invalid value for '--to'"),
        (["scan", "t", "--limit", "-1"], "Invalid value for '--limit'"),
        (["scan", "t", "--version", "one"], "Invalid value for '--version'"),
        (["scan", "t", "--version", "1", "--ref", "main"], "Cannot use --version and --ref together"),
        (["scan", "t", "--as-of", "yesterday"], "Cannot read the moment 'yesterday': it is not ISO 8601"),
        (["scan", "t", "--relocate", "/a"], "Cannot relocate by '/a': expected OLD=NEW"),
        (["plan", "t", "--to", "delta", "--map", "uuid"], "Cannot map types by 'uuid': expected such as uuid=string"),
        (["convert", "t", "--to", "iceberg", "--format-version", "4"], "Invalid value for '--format-version'"),
        (["frobnicate"], "No such command 'frobnicate'"),
        (["scan", "t", "--frobnicate"], "No such option"),
    ],
)
def test_a_request_that_makes_no_sense(words: list[str], message: str, command: Any) -> None:
    assert_one_line(command(*words), 2, re.escape(message))


def test_a_delta_version_that_does_not_exist(command: Any, delta_folder: Path) -> None:
    assert_one_line(command("scan", delta_folder, "--version", 7), 2, "version 7")
    assert_one_line(command("convert", delta_folder, "--to", "iceberg", "--version", 7), 2, "version 7")
    assert not (delta_folder / "_iceberg").exists()


def test_an_iceberg_snapshot_or_branch_that_does_not_exist(command: Any, iceberg_folder: Path) -> None:
    assert_one_line(command("scan", iceberg_folder, "--snapshot-id", 7), 2, "snapshot.* 7")
    assert_one_line(command("scan", iceberg_folder, "--ref", "nightly"), 2, "nightly")


def test_a_moment_before_the_first_commit(command: Any, delta_folder: Path, iceberg_folder: Path) -> None:
    assert_one_line(command("scan", delta_folder, "--as-of", "1999-01-01"), 2, "1999|before|earl")
    assert_one_line(command("scan", iceberg_folder, "--as-of", "1999-01-01"), 2, "1999|before|earl")


def test_a_selector_of_the_other_format(command: Any, delta_folder: Path, iceberg_folder: Path) -> None:
    assert_one_line(command("scan", iceberg_folder, "--version", 1), 2, "version.*Iceberg|Iceberg.*version")
    assert_one_line(command("scan", delta_folder, "--snapshot-id", 1), 2, "snapshot.*Delta|Delta.*snapshot")


def test_a_conversion_to_its_own_format(command: Any, delta_folder: Path, iceberg_folder: Path) -> None:
    for folder, to in ((delta_folder, "delta"), (iceberg_folder, "iceberg")):
        message = f"Cannot convert {folder} to {to}: it is a table of that format already"
        assert_one_line(command("convert", folder, "--to", to), 2, message)


@pytest.mark.parametrize("choice", [["--derive-partition-columns"], ["--iceberg-compat", "v2"]], ids=" ".join)
def test_a_choice_about_delta_targets_for_an_iceberg_target(
    choice: list[str], command: Any, delta_folder: Path
) -> None:
    for verb in ("plan", "convert"):
        message = f"Cannot convert to iceberg with {choice[0]}: it is for Delta targets only; leave it out"
        assert_one_line(command(verb, delta_folder, "--to", "iceberg", *choice), 2, message)
    assert not (delta_folder / "_iceberg").exists()


def test_a_table_is_not_verified_against_itself(command: Any, delta_folder: Path, iceberg_folder: Path) -> None:
    message = f"Cannot verify {delta_folder}: it holds no iceberg table"
    assert_one_line(command("verify", delta_folder, delta_folder), 1, message)
    assert_one_line(command("verify", delta_folder, delta_folder, "--to", "delta"), 1, message)
    message = f"Cannot verify {iceberg_folder}: it holds no delta table"
    assert_one_line(command("verify", iceberg_folder, iceberg_folder), 1, message)


def test_a_column_that_does_not_exist(command: Any, delta_folder: Path, iceberg_folder: Path) -> None:
    assert_one_line(command("scan", delta_folder, "--columns", "id,nme"), 2, "nme")
    assert_one_line(command("scan", iceberg_folder, "--columns", "id,nme"), 2, "nme")


def data_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts)


@pytest.mark.parametrize("kind", ["delta_folder", "iceberg_folder"])
def test_a_missing_data_file(kind: str, command: Any, request: Any, tmp_path: Path) -> None:
    folder = request.getfixturevalue(kind)
    missing = data_files(folder)[0]
    missing.unlink()
    out = tmp_path / "rows.parquet"
    assert_one_line(command("scan", folder, "--out", out), 1, re.escape(missing.name))
    assert not list(tmp_path.glob("rows.parquet*"))


@pytest.mark.parametrize("kind", ["delta_folder", "iceberg_folder"])
@pytest.mark.parametrize("damage", ["truncated", "overwritten", "emptied"])
def test_a_corrupt_data_file(kind: str, damage: str, command: Any, request: Any, tmp_path: Path) -> None:
    folder = request.getfixturevalue(kind)
    broken = data_files(folder)[0]
    whole = broken.read_bytes()
    broken.write_bytes(
        {"truncated": whole[: len(whole) // 2], "overwritten": b"X" * len(whole), "emptied": b""}[damage]
    )
    out = tmp_path / "rows.parquet"
    assert_one_line(command("scan", folder, "--out", out), 1, re.escape(broken.name))
    assert not list(tmp_path.glob("rows.parquet*"))


@pytest.mark.parametrize("verb", VERBS)
def test_a_truncated_delta_commit(verb: str, command: Any, delta_folder: Path) -> None:
    commit = delta_folder / "_delta_log" / f"{1:020d}.json"
    commit.write_bytes(commit.read_bytes()[:-40])
    before = files_below(delta_folder)
    assert_one_line(command(*arguments(verb, delta_folder)), code_of(verb), commit.name)
    assert files_below(delta_folder) == before


@pytest.mark.parametrize("verb", VERBS)
def test_truncated_iceberg_metadata(verb: str, command: Any, iceberg_folder: Path) -> None:
    metadata = max((iceberg_folder / "metadata").glob("*.metadata.json"))
    metadata.write_bytes(metadata.read_bytes()[:-40])
    before = files_below(iceberg_folder)
    assert_one_line(command(*arguments(verb, iceberg_folder, "delta")), code_of(verb), re.escape(metadata.name))
    assert files_below(iceberg_folder) == before


@pytest.mark.parametrize("what", ["snap-*.avro", "*-m0.avro"])
@pytest.mark.parametrize("damage", ["truncated", "overwritten", "emptied"])
def test_a_corrupt_manifest_or_manifest_list(what: str, damage: str, command: Any, iceberg_folder: Path) -> None:
    current = json.loads(max((iceberg_folder / "metadata").glob("*.metadata.json")).read_text())
    snapshot = current["current-snapshot-id"]
    candidates = [
        path for path in (iceberg_folder / "metadata").glob(what) if "snap" not in what or str(snapshot) in path.name
    ]
    for broken in candidates:
        whole = broken.read_bytes()
        broken.write_bytes(
            {"truncated": whole[: len(whole) // 2], "overwritten": b"X" * len(whole), "emptied": b""}[damage]
        )
    before = files_below(iceberg_folder)
    for verb in ("scan", "convert"):
        outcome = command(*arguments(verb, iceberg_folder, "delta"))
        assert_one_line(outcome, code_of(verb), "|".join(re.escape(path.name) for path in candidates))
    assert files_below(iceberg_folder) == before


@pytest.mark.parametrize("damage", ["truncated", "overwritten"])
def test_a_corrupt_checkpoint(damage: str, command: Any, delta_folder: Path) -> None:
    from deltalake import DeltaTable

    DeltaTable(delta_folder).create_checkpoint()
    checkpoint = next((delta_folder / "_delta_log").glob("*.checkpoint.parquet"))
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(whole[: len(whole) // 2] if damage == "truncated" else b"X" * len(whole))
    for commit in (delta_folder / "_delta_log").glob("*.json"):
        commit.unlink()
    assert_one_line(command("scan", delta_folder), 1, re.escape(checkpoint.name))
    assert_one_line(command("convert", delta_folder, "--to", "iceberg"), 3, re.escape(checkpoint.name))
    assert not (delta_folder / "_iceberg").exists()


def test_a_target_that_cannot_be_written(
    command: Any, delta_folder: Path, iceberg_folder: Path, tmp_path: Path
) -> None:
    """Below a plain file no folder can be made, whoever asks."""
    (tmp_path / "file").write_text("in the way")
    before = files_below(tmp_path)
    for folder, to in ((delta_folder, "iceberg"), (iceberg_folder, "delta")):
        target = tmp_path / "file" / "target"
        assert_one_line(command("convert", folder, "--to", to, "--target", target), 1, f"{re.escape(str(target))}")
    assert_one_line(command("scan", delta_folder, "--out", tmp_path / "file" / "rows.parquet"), 1, "file/rows.parquet")
    assert files_below(tmp_path) == before


def test_a_target_that_holds_another_table(
    command: Any, delta_folder: Path, iceberg_folder: Path, tmp_path: Path, rows: Any, another_iceberg: Any
) -> None:
    from deltalake import write_deltalake

    iceberg_target, delta_target = another_iceberg("taken"), tmp_path / "taken_too"
    write_deltalake(delta_target, rows)
    before = files_below(tmp_path)
    outcome = command("convert", delta_folder, "--to", "iceberg", "--target", iceberg_target)
    assert_one_line(outcome, 5, f"{iceberg_target}.*(another|other) ")
    outcome = command("convert", iceberg_folder, "--to", "delta", "--target", delta_target)
    assert_one_line(outcome, 5, f"{delta_target}.*(another|other) ")
    assert files_below(tmp_path) == before


class TestASourceThatCannotBeRead:
    """A refusal of the plan with a code, and the same document from both verbs; what is not the source's fault is none."""

    @staticmethod
    def codes(document: dict[str, Any]) -> list[tuple[str, str]]:
        return [(item["code"], item["severity"]) for item in document["items"]]

    def test_is_one_document_from_plan_and_convert(self, command: Any, delta_folder: Path) -> None:
        whole = command("plan", delta_folder, "--to", "iceberg", "--json").document
        (delta_folder / "_delta_log" / f"{0:020d}.json").write_text("{}\nnot json\n")
        planned = command("plan", delta_folder, "--to", "iceberg", "--json")
        converted = command("convert", delta_folder, "--to", "iceberg", "--json")
        assert (planned.code, converted.code) == (3, 3)
        assert self.codes(planned.document) == [("source-unreadable", "refuse")]
        assert converted.document["plan"] == planned.document
        assert converted.document["error"]["feature"] == "source-unreadable"
        assert planned.document.keys() == whole.keys()
        assert planned.document["source"].keys() == whole["source"].keys()
        assert planned.document["refused"] is True
        assert f"{0:020d}.json" in planned.document["items"][0]["reason"]

    def test_names_a_feature(self, command: Any, delta_folder: Path) -> None:
        protocol = {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["hover"],
            "writerFeatures": ["hover"],
        }
        commit = max((delta_folder / "_delta_log").glob("*.json"))
        commit.write_text(f"{commit.read_text()}\n{json.dumps({'protocol': protocol})}\n")
        planned = command("plan", delta_folder, "--to", "iceberg", "--json")
        assert planned.code == 3
        (item,) = planned.document["items"]
        assert (item["code"], item["severity"]) == ("source-feature", "refuse")
        assert "hover" in item["what"] + item["reason"]

    def test_a_place_that_names_no_file_is_the_callers(self, command: Any) -> None:
        for verb in ("plan", "convert"):
            outcome = command(verb, "file://other-host/t", "--to", "iceberg")
            assert outcome.code == 1
            assert "names another host" in outcome.err

    def test_a_version_that_never_was_is_a_question_of_usage(self, command: Any, delta_folder: Path) -> None:
        for verb in ("plan", "convert"):
            assert command(verb, delta_folder, "--to", "iceberg", "--version", 99).code == 2

    def test_a_store_that_refuses_access_is_a_failure(
        self, command: Any, delta_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from deltaberg.storage import PermissionDenied, open_storage

        kind = type(open_storage())

        def denied(self: Any, location: str, *_: Any, **__: Any) -> Any:
            raise PermissionDenied(f"Cannot read {location}: permission denied", path=location)

        monkeypatch.setattr(kind, "list", denied)
        monkeypatch.setattr(kind, "exists", denied)
        for verb in ("plan", "convert"):
            outcome = command(verb, delta_folder, "--to", "iceberg")
            assert outcome.code == 1
            assert "permission denied" in outcome.err


@pytest.mark.parametrize("to", ["iceberg", "delta"])
def test_a_plan_tells_no_numbers_of_what_was_not_looked_at(command: Any, tmp_path: Path, to: str) -> None:
    outcome = command("plan", tmp_path, "--to", to)
    assert outcome.code == 3
    place = f"{tmp_path}/_iceberg" if to == "iceberg" else str(tmp_path)
    lines = [line.split(maxsplit=1) for line in outcome.out.splitlines() if line.startswith("  ") and line[2] != " "]
    assert lines == [["source", str(tmp_path)], ["target", place]]
    document = command("plan", tmp_path, "--to", to, "--target", tmp_path / "t", "--json").document
    assert (document["measured"], document["target"]) == (False, {"format": to, "location": f"{tmp_path}/t"})
