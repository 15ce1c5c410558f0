"""Objects of S3, Google Cloud Storage, Azure, HTTP or memory, through obstore."""

from __future__ import annotations

import io
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import obstore
import pyarrow as pa
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import HTTPStore, MemoryStore, from_url

from deltaberg.redaction import redacted
from deltaberg.storage.errors import AlreadyExists, ConditionIgnored, NotFound, NotSent, PermissionDenied, StorageError
from deltaberg.storage.protocol import Chunk
from deltaberg.storage.store_name import root_and_key
from deltaberg.storage.store_options import options_for, panics_told

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_SCHEMES = ("s3", "gs", "az", "azure", "adl", "abfs", "abfss", "http", "https", "memory")
_LISTED_AT_ONCE = 50_000
_SETTINGS = ("AWS_", "GOOGLE_", "AZURE_")
_HEED_CONDITIONS: set[tuple[str, ...]] = set()

PROBE_PREFIX = "_deltaberg/probe-"
"""The beginning of the keys, below a table's folder, of objects that test whether a store heeds conditions."""


class RemoteObjects:
    """The operations of ``Storage`` on URLs. One store per bucket, container or host, made at first use.

    ``options`` are obstore's configuration keys (``aws_region``, ``azure_storage_account_name``, ``allow_http`` ...); each
    store takes those that it knows, and the environment gives what they leave out.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)
        self._stores: dict[str, ObjectStore] = {}

    def get(self, url: str) -> bytes:
        store, key = self._place(url)
        with _told("read", url):
            return bytes(obstore.get(store, key).bytes())

    def get_range(self, url: str, start: int, length: int) -> bytes:
        if start < 0 or length < 0:
            raise StorageError(f"Cannot read {length} bytes from byte {start} of {url}: no such range", path=url)
        if length == 0:
            self.head(url)
            return b""
        store, key = self._place(url)
        with _told("read", url):
            data = bytes(obstore.get_range(store, key, start=start, length=length))
        if len(data) != length:
            raise StorageError(
                f"Cannot read {length} bytes from byte {start} of {url}: only {len(data)} are there; it is truncated "
                "or the metadata points outside it",
                path=url,
            )
        return data

    def head(self, url: str) -> tuple[int, int]:
        """Size in bytes and time of the last change in milliseconds since 1970."""
        store, key = self._place(url)
        with _told("read", url):
            meta = obstore.head(store, key)
        return meta["size"], _milliseconds(meta["last_modified"])

    def exists(self, url: str) -> bool:
        try:
            self.head(url)
        except NotFound:
            return False
        return True

    def list(self, folder: str, *, start_after: str | None, recursive: bool) -> Iterator[tuple[str, int, int]]:
        """(name relative to the folder, size, modified_ms) in the order of the names' code points.

        The listing is complete before the first name is given: not every store lists in order.
        """
        store, key = self._place(folder.rstrip("/") + "/x")
        prefix = key[:-1]
        with _told("list", folder):
            if start_after is None and not recursive:
                found = list(obstore.list_with_delimiter(store, prefix or None)["objects"])
            else:
                offset = None if start_after is None else prefix + start_after
                found = []
                for chunk in obstore.list(store, prefix or None, offset=offset, chunk_size=1000):
                    found.extend(chunk)
        names = sorted((meta["path"], meta["size"], meta["last_modified"]) for meta in found)
        for path, size, modified in names:
            name = path[len(prefix) :]
            nested = not recursive and "/" in name
            if path.startswith(prefix) and not nested and (start_after is None or name > start_after):
                yield name, size, _milliseconds(modified)

    def lists(self, url: str) -> bool:
        """Whether the store of a URL can be listed: a plain web server cannot."""
        return not isinstance(self._place(url)[0], HTTPStore)

    def names(self, folder: str) -> Iterator[tuple[str, ...]]:
        """Names below a folder at any depth, relative to it, in pieces as they come and in no particular order."""
        store, key = self._place(folder.rstrip("/") + "/x")
        prefix = key[:-1]
        with _told("list", folder):
            for chunk in obstore.list(store, prefix or None, chunk_size=_LISTED_AT_ONCE):
                yield tuple(meta["path"][len(prefix) :] for meta in chunk if meta["path"].startswith(prefix))

    def open(self, url: str) -> pa.NativeFile:
        store, key = self._place(url)
        size, _ = self.head(url)
        return pa.PythonFile(_Object(store, key, size, url), mode="r")

    @contextmanager
    def create(self, url: str, *, durable: bool = False) -> Iterator[pa.NativeFile]:
        """durable: every object is."""
        store, key = self._place(url)
        with _told("write", url):
            writer = obstore.open_writer(store, key)
        upload = _Upload(writer, url)
        sink = pa.PythonFile(upload, mode="w")
        try:
            yield sink
            if not sink.closed:
                sink.flush()
        except BaseException:
            upload.abandon()
            raise
        upload.finish()

    def put(self, url: str, data: bytes) -> None:
        store, key = self._place(url)
        with _told("write", url):
            obstore.put(store, key, data)

    def put_if_absent(self, url: str, data: bytes | Iterable[Chunk]) -> None:
        store, key = self._place(url)
        # Stores have no condition on an upload in parts that obstore could pass on, so it is one request.
        content = data if isinstance(data, bytes) else b"".join(data)
        self._require_conditions(store, key, url)
        with _told("write", url):
            obstore.put(store, key, content, mode="create", use_multipart=False)

    def _require_conditions(self, store: ObjectStore, key: str, url: str) -> None:
        """Raise ConditionIgnored where a second conditional write to one key succeeds; asked once a store and process."""
        root = url.removesuffix(key)
        if isinstance(store, MemoryStore) or self._identity(root) in _HEED_CONDITIONS:
            return
        # Beside the folder of the log or the metadata files, in which only names that readers know should appear.
        folder = "/".join(key.split("/")[:-2])
        probe = f"{folder}/{PROBE_PREFIX}{uuid.uuid4()}".lstrip("/")
        try:
            with suppress(AlreadyExists), _told("write", root + probe):
                obstore.put(store, probe, b"1", mode="create", use_multipart=False)
            try:
                with _told("write", root + probe):
                    obstore.put(store, probe, b"2", mode="create", use_multipart=False)
            except AlreadyExists:
                _HEED_CONDITIONS.add(self._identity(root))
                return
        except PermissionDenied:
            raise
        except StorageError as error:
            raise NotSent(error.message, path=error.path) from error
        finally:
            with suppress(StorageError):
                self.delete(root + probe)
        raise ConditionIgnored(
            f"Cannot commit to {root}: its store replaces an object although it is asked to write only what is not there "
            "(expected it to refuse with 412), so two writers would overwrite each other; use a store with conditional "
            "writes (If-None-Match), or write to a local folder and copy the table",
            path=url,
        )

    def _identity(self, root: str) -> tuple[str, ...]:
        """The configuration that decides which store a root means to this process."""
        ambient = (f"{name}={value}" for name, value in os.environ.items() if name.startswith(_SETTINGS))
        return (root, *sorted(map(str, self._options.items())), *sorted(ambient))

    def delete(self, url: str) -> None:
        store, key = self._place(url)
        try:
            with _told("delete", url):
                obstore.delete(store, key)
        except NotFound:
            return

    def _place(self, url: str) -> tuple[ObjectStore, str]:
        """The store and the key of a URL. The key is literal; only what no store of obstore can hold is refused."""
        root, key = root_and_key(url)
        segments = key.split("/")
        if "" in segments or "." in segments or ".." in segments:
            raise StorageError(
                f"Cannot use the location {url!r}: its key has an empty, '.' or '..' segment, which object stores "
                "cannot be asked for here; copy the file to another name and relocate it",
                path=url,
            )
        store = self._stores.get(root)
        if store is None:
            store = self._stores.setdefault(root, self._connect(root, url))
        return store, key

    def _connect(self, root: str, url: str) -> ObjectStore:
        scheme = root.partition(":")[0]
        if scheme not in _SCHEMES:
            raise StorageError(
                f"Cannot use the location {url!r}: no store for the scheme {scheme!r} "
                f"(expected file, {', '.join(_SCHEMES)}); give a relocation to where the files are",
                path=url,
            )
        if scheme == "memory":
            return MemoryStore()
        with _told("open", url):
            return from_url(root, **options_for(root, self._options))


class _Object(io.RawIOBase):
    """A remote object as the file that pyarrow reads ranges of."""

    def __init__(self, store: ObjectStore, key: str, size: int, url: str) -> None:
        super().__init__()
        self._store, self._key, self._size, self._url = store, key, size, url
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        rest = max(0, self._size - self._at)
        length = rest if size is None or size < 0 else min(size, rest)
        if length == 0:
            return b""
        with _told("read", self._url):
            data = bytes(obstore.get_range(self._store, self._key, start=self._at, length=length))
        self._at += len(data)
        return data

    def size(self) -> int:
        return self._size


class _Upload(io.RawIOBase):
    """A streamed upload; the object appears when ``finish`` says so, not when pyarrow closes the sink."""

    def __init__(self, writer: Any, url: str) -> None:
        super().__init__()
        self._writer, self._url, self._at, self._open = writer, url, 0, True

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: Any, /) -> int:
        content = bytes(data)
        with _told("write", self._url):
            self._writer.write(content)
        self._at += len(content)
        return len(content)

    def finish(self) -> None:
        if self._open:
            self._open = False
            with _told("write", self._url):
                self._writer.close()

    def abandon(self) -> None:
        self._open = False


def _milliseconds(moment: Any) -> int:
    return int(moment.timestamp() * 1000)


@contextmanager
def _told(verb: str, url: str) -> Iterator[None]:
    """Translate an error of a store."""
    try:
        with panics_told(verb, url):
            yield
    except FileNotFoundError as error:
        raise NotFound(f"Cannot {verb} {url}: no such file", path=url) from _showable(error)
    except (AlreadyExistsError, PreconditionError) as error:
        raise AlreadyExists(f"Cannot {verb} {url}: the file exists already", path=url) from _showable(error)
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise PermissionDenied(f"Cannot {verb} {url}: {_first_line(error)}", path=url) from _showable(error)
    except (BaseError, OSError, ValueError) as error:
        raise StorageError(f"Cannot {verb} {url}: {_first_line(error)}", path=url) from _showable(error)


def _showable(error: Exception) -> Exception | None:
    """The store's own error as a cause; None where its text, which tracebacks print, holds a secret."""
    return error if redacted(str(error)) == str(error) else None


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0].strip() or type(error).__name__
