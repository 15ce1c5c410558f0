"""A table and one state of it, named and opened: the one way in which every entry point opens tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from deltaberg.errors import NotATable, error_context
from deltaberg.migrate.refusal import refusing_unopened
from deltaberg.migrate.source import Selector, Source, TableFormat, open_source
from deltaberg.storage import canonical_location, open_storage


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRef:
    """Which table, which state of it, and how its files are reached.

    location: a folder or an Iceberg ``*.metadata.json``, absolute. format: which table is meant where a folder holds both.
    relocate, storage_options, allow_locations: as ``deltaberg.convert`` has them.
    """

    location: str
    selector: Selector = field(default_factory=Selector)
    format: TableFormat | None = None
    relocate: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    allow_locations: Sequence[str] = ()

    def open(self, *, beside: Sequence[str] = ()) -> Source:
        """The table at that state. beside: other tables that the user named. Raises like ``open_source``."""
        selector = self.selector
        with error_context(table=self.location):
            return open_source(
                self.location,
                open_storage(relocate=self.relocate, options=self.storage_options),
                version=selector.version,
                snapshot_id=selector.snapshot_id,
                ref=selector.ref,
                as_of_ms=selector.as_of_ms,
                format=self.format,
                allow_locations=self.allow_locations,
                beside=beside,
            )

    def open_to_convert(self, to: TableFormat, *, target: str | None) -> Source:
        """The source of a conversion; where a folder holds both tables, the one that is not of the format ``to``.

        target: the folder that the user chose. Raises Refused, with the plan that says why, where the source has to change
        before it can be opened; else like ``open``.
        """
        with error_context(table=self.location):
            # A location that is none is the user's to correct, not the table's.
            canonical_location(self.location)
            with refusing_unopened(self.location, to=to.value, target=target):
                return replace(self, format=self.format or to.other).open()

    def open_to_verify(self, target: str, *, to: TableFormat | None) -> tuple[Source, Source]:
        """Source and target of a comparison. to: the target's format; needed only where a folder holds both tables.

        Raises NotATable where one of them is missing in a folder that was to hold both, and like ``open``.
        """
        format = self.format or (None if to is None else to.other)
        source = replace(self, format=format).open(beside=[target])
        if source.format is to:
            raise _nothing_to_verify(to.other, self.location)
        same_folder = self.location == target
        wanted = to or (source.format.other if same_folder else None)
        other = self.newest_at(target, format=wanted).open(beside=[self.location])
        if same_folder and source.format is other.format:
            raise _nothing_to_verify(source.format.other, target)
        return source, other

    def newest_at(self, location: str, *, format: TableFormat | None) -> TableRef:
        """The newest state of another table, whose files are reached as the files of this one."""
        return replace(self, location=location, format=format, selector=Selector())


def _nothing_to_verify(wanted: TableFormat, location: str) -> NotATable:
    """A table must not be compared with itself because the other one is gone."""
    return NotATable(
        f"Cannot verify {location}: it holds no {wanted.value} table (expected one of each format)", table=location
    )
