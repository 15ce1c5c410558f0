"""All codes, in the order of their names."""

from __future__ import annotations

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
