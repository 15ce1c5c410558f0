"""Storage: every legal name, atomic writes, ordered listings, errors in our own words."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaberg.storage import (
    AlreadyExists,
    NotFound,
    PermissionDenied,
    Storage,
    StorageError,
    absolute_location,
    open_storage,
    presence,
)

NAMES = [
    "plain", "50%", "a%2Fb", "a%20b", "two words", " lead", "p=.", "p=..", "p=a+b", "ü-ñ-漢字-😀", "a:b", "a#1", "x*y?z",
    "tab\there", "line\nbreak", "back\\slash", "[b]{c}", "...", "~tilde", "quote'\"", "\x01",
]  # fmt: skip


@pytest.fixture(params=["local", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Storage, str]:
    """A Storage and an empty folder in it."""
    return open_storage(), str(tmp_path) if request.param == "local" else "memory://bucket/folder"


@pytest.fixture
def storage() -> Storage:
    return open_storage()


@pytest.mark.parametrize("name", NAMES)
def test_every_legal_local_name_works_as_it_stands(storage: Storage, tmp_path: Path, name: str) -> None:
    location = f"{tmp_path}/{name}/{name}"
    storage.put(location, b"0123456789")
    assert (tmp_path / name / name).read_bytes() == b"0123456789"
    assert storage.get(location) == b"0123456789"
    assert storage.get(f"file:{location}") == b"0123456789"
    assert storage.get(f"file://{location}") == b"0123456789"
    assert storage.get_range(location, 2, 3) == b"234"
    assert storage.head(location).size == 10
    with storage.open(location) as file:
        file.seek(5)
        assert file.read() == b"56789"
    assert [info.location for info in storage.list(f"{tmp_path}/{name}")] == [location]
    with pytest.raises(AlreadyExists):
        storage.put_if_absent(location, b"")
    storage.delete(location)
    assert not storage.exists(location)


@pytest.mark.parametrize("name", ["50%", "a%2Fb", "two words", "p=..", "p=a+b", "ü-漢字-😀", "a:b", "a#1", "x*y?z"])
def test_object_keys_are_literal(storage: Storage, name: str) -> None:
    location = f"memory://bucket/t/{name}/{name}"
    storage.put_if_absent(location, b"abc")
    assert storage.get(location) == b"abc"
    assert [info.location for info in storage.list("memory://bucket/t", recursive=True)] == [location]


@pytest.mark.parametrize("key", ["a//b", "/a", "a/../b", "a/./b", "a/", ""])
def test_keys_that_would_be_rewritten_on_the_way_are_refused(storage: Storage, key: str) -> None:
    with pytest.raises(StorageError, match=r"empty, '\.' or '\.\.' segment"):
        storage.get(f"memory://bucket/{key}")


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("/a\0b", "cannot name a file"),
        ("", "cannot name a file"),
        ("data/x.parquet", "it is relative"),
        ("file://host/a", "another host"),
        ("file:a/b", "relative path"),
        ("hdfs://nn/a", "no store for the scheme 'hdfs'"),
        ("/" + "x" * 300, "File name too long"),
        ("/a\udcff", "cannot name a file"),
        ("s3:a", "no host or bucket"),
    ],
)
def test_absurd_locations_are_our_own_error(storage: Storage, location: str, message: str) -> None:
    with pytest.raises(StorageError, match=message) as raised:
        storage.get(location)
    assert "\n" not in str(raised.value)


def test_missing_files_are_named(place: tuple[Storage, str]) -> None:
    storage, folder = place
    for read in (
        lambda: storage.get(f"{folder}/no"),
        lambda: storage.get_range(f"{folder}/no", 0, 1),
        lambda: storage.head(f"{folder}/no"),
        lambda: storage.open(f"{folder}/no"),
    ):
        with pytest.raises(NotFound, match="no such file") as raised:
            read()
        assert raised.value.path == f"{folder}/no"
    assert not storage.exists(f"{folder}/no")
    assert list(storage.list(f"{folder}/no")) == []
    storage.delete(f"{folder}/no")


def test_a_range_outside_the_file_is_never_answered_short(place: tuple[Storage, str]) -> None:
    storage, folder = place
    storage.put(f"{folder}/f", b"0123")
    assert storage.get_range(f"{folder}/f", 4, 0) == b""
    for start, length in ((0, 5), (4, 1), (9, 1), (-1, 2), (1, -1), (0, 1 << 50)):
        with pytest.raises(StorageError, match="Cannot read"):
            storage.get_range(f"{folder}/f", start, length)


def test_put_if_absent_has_one_winner(tmp_path: Path, storage: Storage) -> None:
    location = f"{tmp_path}/log/00000000000000000001.json"
    won: list[int] = []
    barrier = threading.Barrier(8)

    def commit(number: int) -> None:
        barrier.wait()
        try:
            storage.put_if_absent(location, str(number).encode() * 100_000)
        except AlreadyExists:
            return
        won.append(number)

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert storage.get(location) == str(won[0]).encode() * 100_000
    assert os.listdir(tmp_path / "log") == ["00000000000000000001.json"]


def test_put_if_absent_respects_a_file_in_any_store(place: tuple[Storage, str]) -> None:
    storage, folder = place
    storage.put_if_absent(f"{folder}/v1", b"first")
    with pytest.raises(AlreadyExists, match="exists already") as raised:
        storage.put_if_absent(f"{folder}/v1", b"second")
    assert raised.value.path == f"{folder}/v1"
    assert storage.get(f"{folder}/v1") == b"first"


def test_put_if_absent_takes_pieces(place: tuple[Storage, str]) -> None:
    storage, folder = place
    storage.put_if_absent(f"{folder}/v1", iter([b"first ", memoryview(b"second "), b"", b"third"]))
    assert storage.get(f"{folder}/v1") == b"first second third"
    with pytest.raises(AlreadyExists):
        storage.put_if_absent(f"{folder}/v1", iter([b"other"]))
    assert storage.get(f"{folder}/v1") == b"first second third"


def test_pieces_that_end_in_an_error_leave_no_file(place: tuple[Storage, str]) -> None:
    storage, folder = place

    def pieces() -> Iterator[bytes]:
        yield b"x" * 100_000
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        storage.put_if_absent(f"{folder}/v1", pieces())
    assert list(storage.list(folder)) == []
    if folder.startswith("/"):
        assert os.listdir(folder) == []


def test_a_dangling_link_is_not_overwritten_by_put_if_absent(tmp_path: Path, storage: Storage) -> None:
    os.symlink(tmp_path / "nowhere", tmp_path / "link")
    with pytest.raises(AlreadyExists):
        storage.put_if_absent(f"{tmp_path}/link", b"x")


def test_a_created_file_appears_whole_or_not_at_all(place: tuple[Storage, str]) -> None:
    storage, folder = place
    with storage.create(f"{folder}/good") as sink:
        sink.write(b"x" * 1000)
        assert not storage.exists(f"{folder}/good")
        assert list(storage.list(folder)) == []
        sink.write(b"y")
    assert storage.get(f"{folder}/good") == b"x" * 1000 + b"y"

    def fail() -> None:
        with storage.create(f"{folder}/bad") as sink:
            sink.write(b"x" * 20_000_000)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert [info.location for info in storage.list(folder)] == [f"{folder}/good"]


def test_failed_creation_leaves_no_staged_file(tmp_path: Path, storage: Storage) -> None:
    with pytest.raises(RuntimeError), storage.create(f"{tmp_path}/bad"):
        raise RuntimeError
    assert os.listdir(tmp_path) == []


def test_a_created_file_replaces_one_that_is_there(place: tuple[Storage, str]) -> None:
    storage, folder = place
    storage.put(f"{folder}/f", b"old and long")
    with storage.create(f"{folder}/f") as sink:
        sink.write(b"new")
    assert storage.get(f"{folder}/f") == b"new"
    storage.put(f"{folder}/f", b"put")
    assert storage.get(f"{folder}/f") == b"put"


def test_listing_is_in_the_order_of_names_and_starts_after_a_name(place: tuple[Storage, str]) -> None:
    storage, folder = place
    for name in ("b", "a-b/x", "a/z", "a/é", "a/z~", "c/d/e", "😀", "\uffff"):
        storage.put(f"{folder}/{name}", name.encode())

    def names(**options: object) -> list[str]:
        return [info.location[len(folder) + 1 :] for info in storage.list(folder, **options)]  # type: ignore[arg-type]

    everything = names(recursive=True)
    assert everything == sorted(everything, key=str.encode)
    assert everything == ["a-b/x", "a/z", "a/z~", "a/é", "b", "c/d/e", "\uffff", "😀"]
    assert names() == ["b", "\uffff", "😀"]
    assert names(start_after="b") == ["\uffff", "😀"]
    assert names(start_after="a/z", recursive=True) == ["a/z~", "a/é", "b", "c/d/e", "\uffff", "😀"]
    sizes = {info.location: info.size for info in storage.list(folder + "/", recursive=True)}
    assert sizes[f"{folder}/a/é"] == 4


def test_names_of_a_local_folder_are_asked_for_in_their_order(tmp_path: Path, storage: Storage) -> None:
    for name in ("a", "b", "c"):
        storage.put(f"{tmp_path}/{name}", name.encode())
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    os.utime(tmp_path / "c", ns=(0, 1_700_000_000_123_999_999))
    os.utime(tmp_path, ns=(0, 1_700_000_001_000_000_000))
    found = storage.probe(str(tmp_path), ["c", "missing", "folder", "dangling", "a"])
    assert found is not None
    assert [file.location for file in found.files] == [f"{tmp_path}/c", f"{tmp_path}/a"]
    assert (found.files[0].size, found.files[0].modified_ms) == (1, 1_700_000_000_123)
    assert found.changed_ms == 1_700_000_001_000
    assert storage.probe(f"{tmp_path}/absent", ["a"]) is None
    with pytest.raises(StorageError, match="not a folder"):
        storage.probe(f"{tmp_path}/a", ["a"])


def test_an_object_store_is_listed_instead_of_asked_for_many_names(storage: Storage) -> None:
    storage.put("memory://bucket/folder/a", b"x")
    assert storage.probe("memory://bucket/folder", ["a"]) is None


@pytest.mark.parametrize("count", [presence.FEW, 200])
def test_many_files_are_looked_for_at_once(place: tuple[Storage, str], count: int) -> None:
    storage, folder = place
    names = NAMES if folder.startswith("/") else NAMES[: NAMES.index("x*y?z")]
    wanted = [f"{folder}/{names[each % len(names)]}/{each % 7}/f{each}" for each in range(count)]
    wanted += [f"{folder}/leaf {name}" for name in names[:6]]
    for each in wanted[::2]:
        storage.put(each, b"x")
    storage.put(f"{folder}/not asked for", b"x")
    assert storage.present(pa.array(wanted, pa.string())).tolist() == [True, False] * (len(wanted) // 2)
    assert storage.present(pa.array([], pa.string())).tolist() == []


def test_many_files_of_several_places_are_looked_for_where_they_were_moved(tmp_path: Path) -> None:
    storage = open_storage(relocate={"/gone": str(tmp_path), "s3://gone": "memory://bucket/x"})
    storage.put("/gone/a/f", b"x")
    storage.put("s3a://gone/f", b"x")
    (tmp_path / "a" / "folder").mkdir()
    (tmp_path / "a" / "link").symlink_to(tmp_path / "a" / "f")
    (tmp_path / "a" / "dangling").symlink_to(tmp_path / "nowhere")
    wanted = {
        "/gone/a/f": True, "file:///gone/a/link": True, "s3a://gone/f": True, "s3://gone/g": False, "/gone/b/f": False,
        "/gone/a/folder": False, "/gone/a/dangling": False, "/gone/a/f/below a file": False, f"{tmp_path}/a/f": True,
    }  # fmt: skip
    assert storage.present(pa.array(list(wanted))).tolist() == list(wanted.values())


def test_a_listing_of_much_else_is_given_up_for_the_folders_below(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bucket:
        """Lists ten names at a time; knows what it was asked."""

        def __init__(self) -> None:
            self.keys = {f"t/old/{each}" for each in range(5_000)} | {f"t/p={each % 4}/f{each}" for each in range(400)}
            self.listed: list[str] = []
            self.asked: list[str] = []

        def lists(self, url: str) -> bool:
            return url.startswith("s3://bucket/")

        def names(self, folder: str) -> Iterator[tuple[str, ...]]:
            self.listed.append(folder)
            prefix = folder.removeprefix("s3://bucket/") + "/"
            below = sorted(key[len(prefix) :] for key in self.keys if key.startswith(prefix))
            yield from (tuple(below[start : start + 10]) for start in range(0, len(below), 10))

        def exists(self, url: str) -> bool:
            self.asked.append(url)
            return url.removeprefix("s3://bucket/") in self.keys

    monkeypatch.setattr(presence, "SPARE", 50)
    monkeypatch.setattr(presence, "WASTE", 2)
    bucket = Bucket()
    wanted = [f"s3://bucket/t/p={each % 4}/f{each}" for each in range(402)] + ["s3://bucket/t/old/3", "s3://bucket/t/x"]
    found = presence.present_remotely(bucket, pa.array(wanted))
    assert found.tolist() == [True] * 400 + [False] * 2 + [True, False]
    assert bucket.listed == ["s3://bucket/t", *(f"s3://bucket/t/p={each}" for each in range(4))]
    assert sorted(bucket.asked) == ["s3://bucket/t/old/3", "s3://bucket/t/x"]
    web = pa.array([each.replace("s3:", "https:") for each in wanted[398:404]])
    assert presence.present_remotely(bucket, web).tolist() == [False] * 6
    assert len(bucket.asked) == 8


def test_a_key_that_no_store_can_have_is_said_and_not_missing(storage: Storage) -> None:
    urls = pa.array([f"memory://bucket/{each}" for each in range(40)] + ["memory://bucket/a//b"])
    with pytest.raises(StorageError, match="has an empty"):
        storage.present(urls)


def test_modification_times_are_milliseconds(tmp_path: Path, storage: Storage) -> None:
    (tmp_path / "f").write_bytes(b"x")
    os.utime(tmp_path / "f", ns=(0, 1_700_000_000_123_999_999))
    assert storage.head(f"{tmp_path}/f").modified_ms == 1_700_000_000_123
    assert next(iter(storage.list(str(tmp_path)))).modified_ms == 1_700_000_000_123


def test_folders_pipes_and_files_in_the_way_are_told_apart(tmp_path: Path, storage: Storage) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="it is a folder"):
        storage.get(f"{tmp_path}/folder")
    with pytest.raises(StorageError, match="not a regular file"):
        storage.open(f"{tmp_path}/pipe")
    with pytest.raises(NotFound):
        storage.get(f"{tmp_path}/file/below")
    with pytest.raises(StorageError, match="a file stands where its folder should be"):
        storage.put(f"{tmp_path}/file/below", b"")
    with pytest.raises(StorageError, match="a file stands where its folder should be"):
        storage.put_if_absent(f"{tmp_path}/file/below/deeper", b"")
    with pytest.raises(StorageError, match="it is not a folder"):
        list(storage.list(f"{tmp_path}/file"))
    with pytest.raises(StorageError, match="Is a directory"):
        storage.put(f"{tmp_path}/folder", b"")
    assert [info.location for info in storage.list(str(tmp_path))] == [f"{tmp_path}/file"]


def test_a_link_to_a_folder_above_does_not_list_forever(tmp_path: Path, storage: Storage) -> None:
    (tmp_path / "a").mkdir()
    os.symlink(tmp_path, tmp_path / "a" / "up")
    with pytest.raises(StorageError, match="leads back to a folder above"):
        list(storage.list(str(tmp_path), recursive=True))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_refused_file_is_permission_denied(tmp_path: Path, storage: Storage) -> None:
    (tmp_path / "f").write_bytes(b"x")
    (tmp_path / "f").chmod(0)
    with pytest.raises(PermissionDenied, match="permission denied"):
        storage.get(f"{tmp_path}/f")


def test_names_that_are_not_utf8_are_left_out_of_listings(tmp_path: Path, storage: Storage) -> None:
    with open(os.fsencode(tmp_path) + b"/\xff", "wb"):
        pass
    (tmp_path / "g").write_bytes(b"")
    assert [info.location for info in storage.list(str(tmp_path))] == [f"{tmp_path}/g"]


@pytest.mark.parametrize("old", ["/wh/t", "file:/wh/t", "file:///wh/t", "file:///wh/t/"])
@pytest.mark.parametrize("asked", ["/wh/t", "file:/wh/t", "file:///wh/t", "FILE://localhost/wh/t"])
def test_relocation_knows_every_spelling_of_a_local_path(tmp_path: Path, old: str, asked: str) -> None:
    storage = open_storage(relocate={old: f"file://{tmp_path}/"})
    assert storage.resolve(f"{asked}/data/a%20b") == f"{tmp_path}/data/a%20b"
    assert storage.resolve(asked) == str(tmp_path)
    assert storage.resolve(asked + "able/x") == "/wh/table/x"
    storage.put(f"{asked}/data/x", b"1")
    assert (tmp_path / "data" / "x").read_bytes() == b"1"
    assert [info.location for info in storage.list(f"{asked}/data")] == [f"{asked}/data/x"]


def test_the_longest_prefix_wins_and_is_applied_once() -> None:
    storage = open_storage(
        relocate={"/a": "/b", "/a/c": "/a/x", "s3a://k/t": "/local", "/b": "/never", "gs://g": "gs://h/p"}
    )
    locations = [
        "/a", "/a/1", "/a/c", "/a/c/2", "/b/3", "/ab", "s3://k/t/4", "s3n://k/t", "S3A://k/t/5", "s3a://k/tt/6",
        "file:/a/7", "file:////a/8", "gs://g/9", "hdfs://n/a", "/a//x", "/a%2Fb",
    ]  # fmt: skip
    expected = [
        "/b", "/b/1", "/a/x", "/a/x/2", "/never/3", "/ab", "/local/4", "/local", "/local/5", "s3://k/tt/6",
        "/b/7", "/b/8", "gs://h/p/9", "hdfs://n/a", "/b//x", "/a%2Fb",
    ]  # fmt: skip
    assert [storage.resolve(location) for location in locations] == expected
    assert storage.resolve_many(pa.array([*locations, None])).to_pylist() == [*expected, None]
    assert storage.resolve_many(pa.array(["/a/1"])).to_pylist() == ["/b/1"]
    assert storage.resolve_many(pa.array([], pa.string())).to_pylist() == []
    with pytest.raises(StorageError, match="it is relative"):
        storage.resolve_many(pa.array(["/a/1", "data/x"]))
    with pytest.raises(StorageError, match="another host"):
        storage.resolve_many(pa.array(["file://host/x"]))
    with pytest.raises(StorageError, match="cannot name a file"):
        storage.resolve_many(pa.array(["/x\0"]))


@settings(deadline=None)
@given(
    st.lists(
        st.builds(
            "{}{}".format,
            st.sampled_from(
                ["/", "//", "file:", "file:/", "file://", "file:///", "file:////", "FILE:/", "file://localhost/", "s3://",
                 "s3a://", "S3N://", "gs://", "x://", "", "./"]
            ),
            st.sampled_from(["", "a", "a/b", "wh/t/x", "é%20/"]),
        ),
        max_size=4,
    )
)  # fmt: skip
def test_many_locations_are_resolved_like_each_of_them(locations: list[str]) -> None:
    storage = open_storage(relocate={"/a": "/moved", "s3://wh/t": "gs://elsewhere", "./a": "/relative"})

    def outcome(resolve: Callable[[], object]) -> object:
        try:
            return resolve()
        except StorageError as error:
            return str(error)

    each = [outcome(lambda location=location: storage.resolve(location)) for location in locations]  # type: ignore[misc]
    together = outcome(lambda: storage.resolve_many(pa.array(locations, pa.string())).to_pylist())
    refused = [text for text in each if str(text).startswith("Cannot")]
    assert together == (refused[0] if refused else each)


def test_the_root_can_be_relocated(tmp_path: Path) -> None:
    storage = open_storage(relocate={"/": str(tmp_path)})
    assert storage.resolve("/a") == f"{tmp_path}/a"
    assert storage.resolve_many(pa.array(["/a"])).to_pylist() == [f"{tmp_path}/a"]


def test_locations_that_name_no_file_can_be_relocated_as_text(tmp_path: Path) -> None:
    storage = open_storage(relocate={"./t": str(tmp_path), "data/u/": "/u", "file://data/w": "/w"})
    locations = ["./t/a", "t/b", "data/u/c", "file://data/w/d"]
    expected = [f"{tmp_path}/a", f"{tmp_path}/b", "/u/c", "/w/d"]
    assert [storage.resolve(location) for location in locations] == expected
    assert storage.resolve_many(pa.array([*locations, None])).to_pylist() == [*expected, None]
    with pytest.raises(StorageError, match="it is relative"):
        storage.resolve("tt/a")


def test_a_typed_relative_path_is_taken_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a:b").mkdir()
    assert absolute_location("t") == f"{tmp_path}/t"
    assert absolute_location("./a:b") == f"{tmp_path}/a:b"
    assert absolute_location("a:b") == f"{tmp_path}/a:b"
    assert absolute_location("s3://b/t") == "s3://b/t"
    assert absolute_location("file:/x") == "file:/x"


def test_files_are_written_with_the_usual_permissions(tmp_path: Path, storage: Storage) -> None:
    storage.put(f"{tmp_path}/f", b"")
    with storage.create(f"{tmp_path}/g"):
        pass
    (tmp_path / "h").write_bytes(b"")
    usual = stat.S_IMODE((tmp_path / "h").stat().st_mode)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "fg"] == [usual, usual]


def test_a_remote_file_is_seekable_for_pyarrow(storage: Storage) -> None:
    import pyarrow.parquet as pq

    with storage.create("memory://bucket/t.parquet") as sink:
        pq.write_table(pa.table({"a": range(1000)}), sink)
    with storage.open("memory://bucket/t.parquet") as file:
        assert pq.read_table(file).column("a").to_pylist() == list(range(1000))


def test_folders_are_made_and_named_and_deleted_only_when_empty(tmp_path):
    storage = open_storage()
    (tmp_path / "there").mkdir()
    place = f"{tmp_path}/there/new/deep/file"
    assert storage.create_folders(place) == (f"{tmp_path}/there/new", f"{tmp_path}/there/new/deep")
    assert storage.create_folders(place) == ()
    storage.put(place, b"x")
    storage.delete_folder(f"{tmp_path}/there/new")
    storage.delete_folder(f"{tmp_path}/there/new/deep")
    storage.delete_folder(f"{tmp_path}/gone")
    assert storage.get(place) == b"x"
    storage.delete(place)
    storage.delete_folder(f"{tmp_path}/there/new/deep")
    storage.delete_folder(f"{tmp_path}/there/new")
    assert list((tmp_path / "there").iterdir()) == []


def test_no_folder_can_be_made_where_a_file_stands(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="a file stands where its folder should be"):
        open_storage().create_folders(f"{tmp_path}/file/below/x")


def test_an_object_store_has_no_folders():
    storage = open_storage()
    assert storage.create_folders("s3://bucket/a/b") == ()
    storage.delete_folder("s3://bucket/a")
