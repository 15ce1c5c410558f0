"""Reading commits: files of JSON actions, one a line. PROTOCOL "Delta Log Entries".

File actions go through Arrow, column-wise; the few other actions of a commit become values. Many small commits are
read together, a large one in pieces.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from deltaberg.delta.errors import CorruptLog
from deltaberg.delta.log.file_actions import STRING_MAP, add_rows, change_file_rows, remove_rows
from deltaberg.delta.log.log_path import LogFile
from deltaberg.storage.errors import NotFound
from deltaberg.storage.protocol import Storage

FILE_ACTIONS = ("add", "remove", "cdc")
SMALL_ACTIONS = ("commitInfo", "protocol", "metaData", "txn", "domainMetadata", "sidecar", "checkpointMetadata")

_PIECE_BYTES = 16 << 20
_LONGEST_LINE = 1 << 30
_FILE_ACTION = r'^\s*\{\s*"(?:add|remove|cdc)"\s*:\s*\{'
_TAGS_OBJECT = r'"tags"\s*:\s*(?P<tags>\{(?:[^"{}]|"(?:[^"\\]|\\.)*")*\})'

_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedAction:
    """A non-file action: its name, its JSON object, and where it stands."""

    name: str
    body: Mapping[str, object]
    version: int
    location: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionLines:
    """A piece of one or several commits: non-file actions parsed, file actions still as lines.

    ``lines`` are JSON texts that end in a newline; ``versions``, ``sources`` (positions in ``locations``) and
    ``numbers`` (from 1) belong to them one by one, in the order of the log.
    """

    small: tuple[LoggedAction, ...]
    lines: pa.LargeBinaryArray
    versions: np.ndarray = field(repr=False)
    sources: np.ndarray = field(repr=False)
    numbers: np.ndarray = field(repr=False)
    locations: tuple[str, ...]

    def part(self, start: int, stop: int) -> ActionLines:
        """Some of the lines, without the non-file actions."""
        return ActionLines(
            small=(),
            lines=self.lines[start:stop],
            versions=self.versions[start:stop],
            sources=self.sources[start:stop],
            numbers=self.numbers[start:stop],
            locations=self.locations,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileActions:
    """File actions of one piece, each kind with the version that every row belongs to."""

    adds: pa.RecordBatch
    add_versions: np.ndarray = field(repr=False)
    removes: pa.RecordBatch
    remove_versions: np.ndarray = field(repr=False)
    change_files: pa.RecordBatch


def read_action_lines(storage: Storage, files: Sequence[LogFile]) -> Iterator[ActionLines]:
    """The actions of log files in their order; a log compaction counts as its end version.

    Raises CorruptLog naming file and line for what is not JSON, and for a file that is gone.
    """
    pending: list[_Piece] = []
    size = 0
    for file in files:
        for piece in _pieces(storage, file):
            if pending and size + len(piece.data) > _PIECE_BYTES:
                yield _split(pending)
                pending, size = [], 0
            pending.append(piece)
            size += len(piece.data)
    if pending:
        yield _split(pending)


def parse_file_actions(piece: ActionLines, partition_names: Sequence[str]) -> FileActions:
    """The file actions of a piece as rows. Raises CorruptLog naming file, line and field for a malformed one."""
    try:
        return _parse(piece, partition_names)
    except CorruptLog as error:
        if len(piece.lines) == 1:
            error.version = int(piece.versions[0])
            error.path = piece.locations[int(piece.sources[0])]
            error.message = f"{error.message} (line {piece.numbers[0]})"
            raise
        # Halving finds the line; what no half shows alone concerns them together.
        middle = len(piece.lines) // 2
        parse_file_actions(piece.part(0, middle), partition_names)
        parse_file_actions(piece.part(middle, len(piece.lines)), partition_names)
        raise


def no_file_actions(partition_names: Sequence[str]) -> FileActions:
    """The file actions of a commit that has none."""
    none = np.empty(0, dtype=np.int64)
    lines = pa.array([], pa.large_binary())
    piece = ActionLines(small=(), lines=lines, versions=none, sources=none, numbers=none, locations=())
    return _parse(piece, partition_names)


def non_file_action_of(name: str, body: object, *, version: int, location: str) -> LoggedAction:
    """A non-file action whose body must be an object. Raises CorruptLog otherwise."""
    if not isinstance(body, Mapping):
        raise CorruptLog(
            f"Cannot read a {name} action: it is {body!r:.50} (expected an object)", version=version, path=location
        )
    return LoggedAction(name=name, body=body, version=version, location=location)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Whole lines of one file, the last one ending in a newline; ``first_line`` counts from 1."""

    file: LogFile
    data: bytes
    first_line: int


def _pieces(storage: Storage, file: LogFile) -> Iterator[_Piece]:
    try:
        if file.size <= _PIECE_BYTES:
            data = storage.get(file.location)
            if not data:
                raise CorruptLog(
                    "Cannot read the log: a file is empty; the write that made it was cut off",
                    version=file.version,
                    path=file.location,
                )
            yield _Piece(file=file, data=data if data.endswith(b"\n") else data + b"\n", first_line=1)
            return
        yield from _stream(storage, file)
    except NotFound as error:
        raise CorruptLog(
            "Cannot read the log: a file that was listed is gone; another process cleans up the log",
            version=file.version,
            path=file.location,
        ) from error


def _stream(storage: Storage, file: LogFile) -> Iterator[_Piece]:
    rest, line = b"", 1
    with storage.open(file.location) as source:
        while True:
            block = source.read(_PIECE_BYTES)
            if not block:
                break
            cut = block.rfind(b"\n") + 1
            if not cut:
                rest += block
                if len(rest) > _LONGEST_LINE:
                    raise CorruptLog(
                        f"Cannot read the log: line {line} is longer than {_LONGEST_LINE} bytes",
                        version=file.version,
                        path=file.location,
                    )
                continue
            piece = _Piece(file=file, data=rest + block[:cut], first_line=line)
            rest = block[cut:]
            line += piece.data.count(b"\n")
            yield piece
    if rest:
        yield _Piece(file=file, data=rest + b"\n", first_line=line)


def _split(pieces: Sequence[_Piece]) -> ActionLines:
    data = b"".join(piece.data for piece in pieces)
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n")) + 1
    offsets = np.concatenate(([0], ends)).astype(np.int64)
    all_lines = pa.Array.from_buffers(pa.large_binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    piece_starts = np.cumsum([0, *(len(piece.data) for piece in pieces)])
    sources = np.searchsorted(piece_starts, offsets[:-1], side="right") - 1
    first_row = np.searchsorted(offsets, piece_starts[:-1])
    numbers = np.arange(len(ends)) - first_row[sources] + np.array([piece.first_line for piece in pieces])[sources]
    versions = np.array([_version_of(piece.file) for piece in pieces], dtype=np.int64)[sources]

    _require_utf8(all_lines, pieces, sources, numbers)
    of_files = pc.match_substring_regex(all_lines, _FILE_ACTION).to_numpy(zero_copy_only=False).copy()
    small: list[LoggedAction] = []
    for row in np.flatnonzero(~of_files):
        file = pieces[int(sources[row])].file
        found = _non_file_actions(all_lines[int(row)].as_py(), _version_of(file), file.location, int(numbers[row]))
        of_files[row] = found is None
        small.extend(found or ())
    kept = np.flatnonzero(of_files)
    return ActionLines(
        small=tuple(small),
        lines=all_lines.filter(pa.array(of_files)) if len(kept) < len(ends) else all_lines,
        versions=versions[kept],
        sources=sources[kept],
        numbers=numbers[kept],
        locations=tuple(piece.file.location for piece in pieces),
    )


def _require_utf8(
    lines: pa.LargeBinaryArray, pieces: Sequence[_Piece], sources: np.ndarray, numbers: np.ndarray
) -> None:
    """Raise CorruptLog naming the first line that is not UTF-8, even in a field that is not read."""
    try:
        lines.view(pa.large_string()).validate(full=True)
    except pa.ArrowInvalid as error:
        for row in range(len(lines)):
            try:
                lines[row].as_py().decode()
            except UnicodeDecodeError:
                file = pieces[int(sources[row])].file
                raise CorruptLog(
                    f"Cannot read the log: line {numbers[row]} is not UTF-8",
                    version=_version_of(file),
                    path=file.location,
                ) from error


def _version_of(file: LogFile) -> int:
    return file.version if file.end_version is None else file.end_version


def _non_file_actions(line: bytes, version: int, location: str, number: int) -> tuple[LoggedAction, ...] | None:
    """The non-file action of a line, none for a blank line or an unknown action; None when it is a file action."""
    if not line.strip():
        return ()

    def corrupt(reason: str) -> CorruptLog:
        return CorruptLog(f"Cannot read the log: line {number} {reason}", version=version, path=location)

    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise corrupt(f"is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise corrupt("is no JSON object (expected an action)")
    names = [name for name in (*FILE_ACTIONS, *SMALL_ACTIONS) if value.get(name) is not None]
    if len(names) > 1:
        raise corrupt(f"has the actions {' and '.join(names)} (expected one action a line)")
    if not names:
        return ()
    if names[0] in FILE_ACTIONS:
        return None
    return (non_file_action_of(names[0], value[names[0]], version=version, location=location),)


def _parse(piece: ActionLines, partition_names: Sequence[str]) -> FileActions:
    table = _read_lines(piece.lines, _line_schema(partition_names))
    for name in SMALL_ACTIONS:
        if table.column(name).null_count < table.num_rows:
            raise CorruptLog(f"Cannot read the log: a line has a file action and {name} (expected one action a line)")
    actions = {name: table.column(name).combine_chunks() for name in FILE_ACTIONS}
    present = {name: pc.is_valid(column) for name, column in actions.items()}
    structs = {name: column.filter(present[name]) for name, column in actions.items()}
    if sum(len(column) for column in structs.values()) != table.num_rows:
        raise CorruptLog("Cannot read the log: a line has several file actions or none (expected one action a line)")
    versions = {name: piece.versions[mask.to_numpy(zero_copy_only=False)] for name, mask in present.items()}
    tags = _tags(piece.lines)
    return FileActions(
        adds=add_rows(structs["add"], partition_names, tags=tags.filter(present["add"])),
        add_versions=versions["add"],
        removes=remove_rows(structs["remove"], partition_names, tags=tags.filter(present["remove"])),
        remove_versions=versions["remove"],
        change_files=change_file_rows(structs["cdc"], partition_names),
    )


def _read_lines(lines: pa.LargeBinaryArray, schema: pa.Schema) -> pa.Table:
    """One row for each line. Raises CorruptLog naming the field when a line is not what the schema says."""
    if len(lines) == 0:
        return schema.empty_table()
    # With every line a brace-to-brace text, as many objects as lines can only be one object a line.
    untidy = np.flatnonzero(~pc.ends_with(lines, b"}\n").to_numpy(zero_copy_only=False))
    if any(not lines[int(row)].as_py().rstrip().endswith(b"}") for row in untidy):
        raise CorruptLog("Cannot read the log: a line is no JSON object (expected an action)")
    offsets = np.frombuffer(lines.buffers()[1], dtype=np.int64)[lines.offset : lines.offset + len(lines) + 1]
    start, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    try:
        table = pj.read_json(
            pa.BufferReader(lines.buffers()[2].slice(start, size)),
            read_options=pj.ReadOptions(use_threads=False, block_size=size + 1),
            parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
        table.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptLog(f"Cannot read the log: {_first_line(error)}") from error
    if table.num_rows != len(lines):
        raise CorruptLog("Cannot read the log: a line has several JSON objects (expected one action a line)")
    return table


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(". ")


def _line_schema(partition_names: Sequence[str]) -> pa.Schema:
    partition_values = pa.struct([pa.field(name, pa.string()) for name in partition_names])
    shared = [
        ("path", pa.string()),
        ("partitionValues", partition_values),
        ("size", pa.int64()),
        ("dataChange", pa.bool_()),
        ("deletionVector", _VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
    add = [*shared, ("modificationTime", pa.int64()), ("stats", pa.string()), ("clusteringProvider", pa.string())]
    remove = [*shared, ("deletionTimestamp", pa.int64()), ("extendedFileMetadata", pa.bool_())]
    cdc = [("path", pa.string()), ("partitionValues", partition_values), ("size", pa.int64())]
    return pa.schema(
        [
            ("add", pa.struct(add)),
            ("remove", pa.struct(remove)),
            ("cdc", pa.struct(cdc)),
            *((name, pa.struct([])) for name in SMALL_ACTIONS),
        ]
    )


def _tags(lines: pa.LargeBinaryArray) -> pa.Array:
    """``tags`` of every line. Their keys are not known beforehand, so each distinct object is read once."""
    if not pc.any(pc.match_substring(lines, b'"tags"'), min_count=0).as_py():
        return pa.nulls(len(lines), STRING_MAP)
    # Inside a string the quotes would be escaped.
    texts = pc.struct_field(pc.extract_regex(lines, _TAGS_OBJECT), "tags")
    unique = pc.dictionary_encode(texts)
    maps = [_tag_map(text) for text in unique.dictionary.to_pylist()]
    return pa.array(maps, STRING_MAP).take(unique.indices)


def _tag_map(text: bytes) -> list[tuple[str, str | None]]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise CorruptLog(f"Cannot read the log: tags are not JSON ({error})") from error
    if not all(each is None or isinstance(each, str) for each in value.values()):
        raise CorruptLog("Cannot read the log: a tag is no text")
    return list(value.items())
