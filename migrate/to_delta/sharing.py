"""Which files of an Iceberg snapshot a Delta target cannot share as they are, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from deltaberg.delta.schema.column_mapping import MappingMode
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.partition.transforms import IdentityTransform
from deltaberg.migrate.files.file_layout import UNREADABLE
from deltaberg.migrate.to_delta.column_names import ColumnNaming
from deltaberg.translate import codes
from deltaberg.translate.file_sharing import SharingBlocker, delta_blockers, effective_blockers
from deltaberg.translate.findings import Finding, Severity
from deltaberg.translate.options import ConvertOptions

GroupKey = tuple[int, int]
"""Layout and spec id, which the files of a group share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Files of equal layout and partition spec. blockers: why they are not shared; empty where they are."""

    layout: int
    spec_id: int
    files: int
    rows: int
    bytes: int
    blockers: tuple[SharingBlocker, ...] = ()

    @property
    def key(self) -> GroupKey:
        return self.layout, self.spec_id


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSharing:
    """Judges the files of a survey for a target whose columns have the physical names ``names``.

    partition_sources: columns that become partition columns. mapped: leaves whose values change on the way.
    """

    naming: ColumnNaming
    metadata: TableMetadata
    options: ConvertOptions
    names: Mapping[int, str]
    mode: MappingMode
    partition_sources: frozenset[int]
    mapped: frozenset[int]

    def groups(self, more: Mapping[GroupKey, Sequence[SharingBlocker]]) -> tuple[FileGroup, ...]:
        """Every group with its blockers, those in ``more`` included."""
        return tuple(
            FileGroup(
                layout=key[0],
                spec_id=key[1],
                files=tally.files,
                rows=tally.rows,
                bytes=tally.bytes,
                blockers=(*self._blockers(key), *more.get(key, ())),
            )
            for key, tally in self.naming.survey.tallies.items()
        )

    def findings(self, groups: Sequence[FileGroup]) -> Iterator[Finding]:
        """One finding for each blocker."""
        for group in groups:
            for blocker in effective_blockers(group.blockers):
                severity, remedy = self._severity(blocker)
                by_name = blocker.code in {codes.FORMER_NAMES, codes.FIELD_IDS_DISAGREE}
                yield Finding(
                    code=codes.COLUMN_MAPPING_IMPOSSIBLE if self.mode is MappingMode.NONE and by_name else blocker.code,
                    what=blocker.column,
                    detail=blocker.detail,
                    files=group.files,
                    rows=group.rows,
                    severity=severity,
                    remedy=remedy,
                )

    def rewritten(self, groups: Sequence[FileGroup]) -> frozenset[GroupKey]:
        """The groups that are rewritten."""
        return frozenset(
            group.key
            for group in groups
            if any(self._severity(each)[0] is Severity.REWRITE for each in effective_blockers(group.blockers))
        )

    def misleads_by_name(self, groups: Sequence[FileGroup]) -> bool:
        """Whether files are shared in which a reader that goes by physical name would miss or mistake a column."""
        rewritten = self.rewritten(groups)
        names = {codes.FORMER_NAMES, codes.FIELD_IDS_DISAGREE}
        return any(each.code in names for group in groups if group.key not in rewritten for each in group.blockers)

    def _blockers(self, key: GroupKey) -> tuple[SharingBlocker, ...]:
        layout = self.naming.survey.footers.layout[key[0]]
        if layout is UNREADABLE:
            return ()
        if layout.fields is None:
            return (SharingBlocker(code=codes.DATA_FILE_FORMAT, column=layout.format),)
        found = list(
            delta_blockers(
                self.naming.schema,
                self.naming.held[key[0]],
                mapped=self.mapped,
                partition_sources=self.partition_sources,
                identity_sources=self._identity_sources(key[1]),
            )
        )
        found.extend(self.naming.blockers(key[0], self.names, self.partition_sources))
        if self.mode is MappingMode.ID and not layout.has_ids:
            found.append(SharingBlocker(code=codes.FIELD_IDS_DISAGREE, column="field ids"))
        if layout.hybrid_calendar:
            found.append(SharingBlocker(code=codes.LEGACY_CALENDAR, column="dates and timestamps"))
        return tuple(dict.fromkeys(found))

    def _identity_sources(self, spec_id: int) -> frozenset[int]:
        spec = self.metadata.spec_by_id(spec_id)
        return frozenset(part.source_id for part in spec.fields if isinstance(part.transform, IdentityTransform))

    def _severity(self, blocker: SharingBlocker) -> tuple[Severity, str | None]:
        if self.mode is MappingMode.NONE and blocker.code in {codes.FORMER_NAMES, codes.FIELD_IDS_DISAGREE}:
            return Severity.REFUSE, None
        if blocker.code is not codes.FORMER_NAMES:
            strict = blocker.code.strict if self.options.strict else None
            return strict or blocker.code.severity, None
        match self.options.former_names:
            case "rewrite":
                return Severity.REWRITE, "Nothing to do; these files are rewritten, as asked for."
            case "trust-ids" if self.mode is MappingMode.ID:
                return (
                    Severity.WARNING,
                    "Read the target only with engines that match columns by field id, as Spark does.",
                )
            case _:
                return Severity.REFUSE, None
