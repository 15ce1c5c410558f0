"""Named values of a request, from Python or from a file: every name must be known, and every value of its declared
type.
"""

from __future__ import annotations

import difflib
import types
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral
from typing import Any, Literal, Union, get_args, get_origin

from deltaberg.errors import UsageError


def check_keywords(
    what: str, given: Mapping[str, object], known: Mapping[str, Any], *, shown: Callable[[object], str] = repr
) -> None:
    """Raise UsageError for a name that is not in ``known``, or a value that is not of the type that ``known`` has for
    it.

    what: the beginning of the message, such as ``Cannot convert``. shown: formats a value for the message.
    """
    for key, value in given.items():
        if key not in known:
            raise UsageError(f"{what}: unknown key {key} ({nearest(key, known)})")
        if not fits(value, known[key]):
            raise UsageError(f"{what}: {key} must be {expected(known[key])}, found {shown(value)}")


def nearest(name: str, known: Iterable[str]) -> str:
    """The known names that resemble an unknown one; all of them where none does."""
    names = sorted(known)
    found = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {found[0]}?" if found else f"expected one of {', '.join(names)}"


def fits(value: object, kind: Any) -> bool:
    """Whether a value is of a declared type: a class, choices, a union of them, or a collection of texts."""
    origin = get_origin(kind)
    if origin is Literal:
        return any(
            value == each and isinstance(value, type(each)) and not isinstance(value, bool) for each in get_args(kind)
        )
    if origin in (Union, types.UnionType):
        return any(fits(value, each) for each in get_args(kind))
    if origin is Callable:
        return callable(value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(isinstance(each, str) for pair in value.items() for each in pair)
    if origin is Iterable:
        return isinstance(value, Iterable) and not isinstance(value, (str, bytes))
    if kind is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    return isinstance(value, origin or kind)


def expected(kind: Any) -> str:
    """A declared type in words; ``None`` is not mentioned."""
    origin = get_origin(kind)
    if origin is Literal:
        return "one of " + ", ".join(map(str, get_args(kind)))
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(expected(each) for each in get_args(kind) if each is not type(None)))
    if origin is Callable or origin is Mapping or origin is Iterable:
        return {Callable: "a function", Mapping: "an object of texts", Iterable: "a list of texts"}[origin]
    names = {bool: "true or false", int: "a whole number", str: "a text"}
    return names.get(kind) or f"a {(origin or kind).__name__}"
