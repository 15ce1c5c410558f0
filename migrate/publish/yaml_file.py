"""A YAML file as nodes that know their line, read strictly: no key twice, no object of Python, nothing that contains itself."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import yaml

from deltaberg.errors import UsageError
from deltaberg.keywords import expected, fits, nearest
from deltaberg.storage import absolute_location
from deltaberg.storage.location import scheme_of

_NULL: Final = "tag:yaml.org,2002:null"


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlNode:
    """One value of a file. value: a dict of text to nodes, a tuple of nodes, or a scalar; text: of a scalar, as written.

    key: what leads here, such as ``tables[2].source``.
    """

    file: str
    line: int
    key: str
    value: Any
    text: str = ""

    def fail(self, reason: str) -> NoReturn:
        """Raise UsageError that names file, line and key."""
        raise UsageError(
            f"Cannot read {self.file}: line {self.line}: {self.key}{' ' if self.key else ''}{reason}", path=self.file
        )

    def mapping(self) -> dict[str, YamlNode]:
        if not isinstance(self.value, dict):
            self.fail(f"must be keys with values, found {self._shown()}")
        return self.value

    def sequence(self) -> tuple[YamlNode, ...]:
        if not isinstance(self.value, tuple):
            self.fail(f"must be a list, found {self._shown()}")
        return self.value

    def known_keys(self, known: Iterable[str]) -> dict[str, YamlNode]:
        """The mapping. Raises UsageError for a key that is not known, with the nearest one that is."""
        names = tuple(known)
        found = self.mapping()
        for key, node in found.items():
            if key not in names:
                raise UsageError(
                    f"Cannot read {self.file}: line {node.line}: unknown key {node.key} ({nearest(key, names)})",
                    path=self.file,
                )
        return found

    def of_type(self, kind: Any) -> Any:
        """The plain value. Raises UsageError where it is not of a declared type, as ``deltaberg.keywords`` knows types."""
        value = self.plain()
        if not fits(value, kind):
            self.fail(f"must be {expected(kind)}, found {self._shown()}")
        return value

    def seconds(self, *, least: float = 0.0) -> float:
        """A number of seconds above zero, and not below ``least``."""
        if not isinstance(self.value, (int, float)) or isinstance(self.value, bool) or not 0 < self.value < 1e9:
            self.fail(f"must be a number of seconds above 0, found {self._shown()}")
        if self.value < least:
            self.fail(f"must be at least {least:g} seconds, found {self._shown()}")
        return float(self.value)

    def texts(self) -> dict[str, str]:
        """A mapping whose values are texts as they are written: 017 stays 017."""
        return {key: node.scalar_text() for key, node in self.mapping().items()}

    def scalar_text(self) -> str:
        if isinstance(self.value, (dict, tuple)) or self.value is None:
            self.fail(f"must be a text, found {self._shown()}")
        return self.text

    def location(self) -> str:
        """A location, absolute: a relative path begins in the folder of the file."""
        text = self.scalar_text()
        if not text:
            self.fail("must be a location, found an empty text")
        if scheme_of(text) is not None or text.startswith("/"):
            try:
                return absolute_location(text)
            except UsageError as error:
                self.fail(f"cannot be used: {error.message}")
        folder = self.file.rpartition("/")[0]
        return os.path.normpath(f"{folder}/{text}") if scheme_of(folder) is None else f"{folder}/{text}"

    def plain(self) -> Any:
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, tuple):
            return [node.plain() for node in self.value]
        return self.value

    def _shown(self) -> str:
        if isinstance(self.value, dict):
            return "keys with values"
        if isinstance(self.value, tuple):
            return "a list"
        return "nothing" if self.value is None else repr(self.text)


def read_yaml(data: bytes, file: str) -> YamlNode:
    """The document of a file. Raises UsageError that says on which line it is broken."""
    try:
        loader = yaml.SafeLoader(data)
        root = loader.get_single_node()
        if root is None:
            raise UsageError(f"Cannot read {file}: it is empty (expected tables)", path=file)
        return _Reader(loader, file).node(root, "")
    except yaml.YAMLError as error:
        raise UsageError(f"Cannot read {file}: {_place(error)}it is not YAML ({_problem(error)})", path=file) from error


def _place(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    return "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "


def _problem(error: yaml.YAMLError) -> str:
    parts = (getattr(error, "context", None), getattr(error, "problem", None))
    return ", ".join(part for part in parts if part) or " ".join(str(error).split())


class _Reader:
    __slots__ = ("_done", "_file", "_loader", "_open")

    def __init__(self, loader: yaml.SafeLoader, file: str) -> None:
        self._loader, self._file = loader, file
        self._open: set[int] = set()
        self._done: dict[int, YamlNode] = {}

    def node(self, raw: Any, key: str) -> YamlNode:
        """An alias leads to one node, which is converted once however often it is named."""
        if id(raw) in self._done:
            return self._done[id(raw)]
        line = raw.start_mark.line + 1
        if id(raw) in self._open:
            YamlNode(file=self._file, line=line, key=key, value=None).fail("contains itself")
        self._open.add(id(raw))
        made = YamlNode(file=self._file, line=line, key=key, value=self._value(raw, key), text=self._text(raw))
        self._open.discard(id(raw))
        self._done[id(raw)] = made
        return made

    def _text(self, raw: Any) -> str:
        return raw.value if isinstance(raw, yaml.ScalarNode) else ""

    def _value(self, raw: Any, key: str) -> Any:
        if isinstance(raw, yaml.MappingNode):
            return self._mapping(raw, key)
        if isinstance(raw, yaml.SequenceNode):
            return tuple(self.node(each, f"{key}[{place}]") for place, each in enumerate(raw.value, 1))
        if raw.tag == _NULL:
            return None
        try:
            return self._loader.construct_object(raw)
        except ValueError:
            return raw.value  # a date that there is not, a number of too many digits: a text, then

    def _mapping(self, raw: Any, key: str) -> Mapping[str, YamlNode]:
        found: dict[str, YamlNode] = {}
        for name, value in raw.value:
            line = name.start_mark.line + 1
            here = YamlNode(file=self._file, line=line, key=key, value=None)
            if not isinstance(name, yaml.ScalarNode):
                here.fail("has a key that is not a text")
            whole = f"{key}.{name.value}" if key else name.value
            if name.value in found:
                YamlNode(file=self._file, line=line, key=whole, value=None).fail(
                    f"is given twice, first on line {found[name.value].line}"
                )
            made = self.node(value, whole)
            # A key is found where it stands, not where its value begins or was anchored.
            found[name.value] = YamlNode(file=made.file, line=line, key=whole, value=made.value, text=made.text)
        return found
