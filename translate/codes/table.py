"""All codes, in the order of their names."""

from __future__ import annotations

import copyreg
from typing import Final

from deltaberg.translate.codes import (
    conversion,
    data_files,
    deletes,
    location,
    partitioning,
    properties,
    reader,
    schema,
    source,
)
from deltaberg.translate.findings import Code

_CHAPTERS: Final = (conversion, data_files, deletes, location, partitioning, properties, reader, schema, source)

ALL_CODES: Final[tuple[Code, ...]] = tuple(
    sorted(
        (value for chapter in _CHAPTERS for value in vars(chapter).values() if isinstance(value, Code)),
        key=lambda code: code.name,
    )
)

_BY_NAME: Final = {code.name: code for code in ALL_CODES}


def code_named(name: str) -> Code:
    """The code of that name; KeyError where there is none."""
    return _BY_NAME[name]


def _by_name(code: Code) -> tuple[object, tuple[str]]:
    return code_named, (code.name,)


# A code is pickled as its name: findings that another process sends back carry the codes of this one.
copyreg.pickle(Code, _by_name)  # type: ignore[arg-type]
