"""The ``protocol`` action: which versions and table features a table needs. PROTOCOL "Protocol Evolution"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deltaberg.delta.errors import CorruptLog, UnsupportedDeltaFeature
from deltaberg.delta.protocol.table_features import FEATURE_BY_NAME, FeatureKind, legacy_features

READER_VERSION_WITH_FEATURES = 3
WRITER_VERSION_WITH_FEATURES = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """Minimum versions, and the feature lists that exist from reader version 3 and writer version 7 on."""

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None

    @staticmethod
    def from_json(value: Mapping[str, object]) -> Protocol:
        """The action from its JSON object. Raises CorruptLog naming the field that breaks the protocol's rules."""
        protocol = Protocol(
            min_reader_version=_version(value, "minReaderVersion"),
            min_writer_version=_version(value, "minWriterVersion"),
            reader_features=_features(value, "readerFeatures"),
            writer_features=_features(value, "writerFeatures"),
        )
        protocol._check()
        return protocol

    def to_json(self) -> dict[str, object]:
        """The action's JSON object, feature lists only where the versions call for them."""
        value: dict[str, object] = {
            "minReaderVersion": self.min_reader_version,
            "minWriterVersion": self.min_writer_version,
        }
        if self.min_reader_version >= READER_VERSION_WITH_FEATURES:
            value["readerFeatures"] = list(self.reader_features or ())
        if self.min_writer_version >= WRITER_VERSION_WITH_FEATURES:
            value["writerFeatures"] = list(self.writer_features or ())
        return value

    @property
    def features(self) -> tuple[str, ...]:
        """The names of all supported features, listed or implied by the versions, in order of first mention."""
        names = [each.name for each in legacy_features(self.min_reader_version, self.min_writer_version)]
        return tuple(dict.fromkeys((*names, *(self.reader_features or ()), *(self.writer_features or ()))))

    def supports(self, feature: str) -> bool:
        """Whether the table supports a feature, under its own or a preview name."""
        return any(
            name == feature or (name in FEATURE_BY_NAME and FEATURE_BY_NAME[name].canonical_name == feature)
            for name in self.features
        )

    def require_readable(self) -> None:
        """Raise UnsupportedDeltaFeature naming the feature that keeps deltaberg from reading the table exactly.

        Unknown features of writers do not concern readers (PROTOCOL "Table Features") and pass.
        """
        if self.min_reader_version > READER_VERSION_WITH_FEATURES:
            raise UnsupportedDeltaFeature(
                f"Cannot read the table: it needs reader version {self.min_reader_version} "
                f"(expected at most {READER_VERSION_WITH_FEATURES}); upgrade deltaberg",
                feature=f"reader version {self.min_reader_version}",
            )
        for name in self.features:
            known = FEATURE_BY_NAME.get(name)
            if known is not None and known.refusal is not None:
                raise UnsupportedDeltaFeature(
                    f"Cannot read a table with the feature {name}: {known.refusal}", feature=name
                )
            if known is None and name in (self.reader_features or ()):
                raise UnsupportedDeltaFeature(
                    f"Cannot read the table: it needs the reader feature {name!r}, which deltaberg does not know; "
                    "upgrade deltaberg or drop the feature",
                    feature=name,
                )

    def unknown_features(self) -> tuple[str, ...]:
        """Listed features that deltaberg does not know."""
        return tuple(name for name in self.features if name not in FEATURE_BY_NAME)

    def _check(self) -> None:
        for minimum, needed, name, features in (
            (self.min_reader_version, READER_VERSION_WITH_FEATURES, "readerFeatures", self.reader_features),
            (self.min_writer_version, WRITER_VERSION_WITH_FEATURES, "writerFeatures", self.writer_features),
        ):
            if features and minimum < needed:
                raise CorruptLog(
                    f"Cannot read the protocol: {name} is present with version {minimum} (expected {needed})"
                )
            if features is None and minimum >= needed:
                raise CorruptLog(f"Cannot read the protocol: version {minimum} is given without {name}")
        if (
            self.min_reader_version >= READER_VERSION_WITH_FEATURES
            and self.min_writer_version < WRITER_VERSION_WITH_FEATURES
        ):
            raise CorruptLog(
                f"Cannot read the protocol: reader version {self.min_reader_version} needs writer version "
                f"{WRITER_VERSION_WITH_FEATURES} (found {self.min_writer_version})"
            )
        for name in self.reader_features or ():
            known = FEATURE_BY_NAME.get(name)
            if known is not None and known.kind is FeatureKind.WRITER:
                raise CorruptLog(f"Cannot read the protocol: readerFeatures lists {name}, a feature of writers only")


def _version(value: Mapping[str, object], key: str) -> int:
    number = value.get(key)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 2**31:
        raise CorruptLog(f"Cannot read the protocol: {key} is {number!r} (expected a version number)")
    return number


def _features(value: Mapping[str, object], key: str) -> tuple[str, ...] | None:
    names = value.get(key)
    if names is None:
        return None
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise CorruptLog(f"Cannot read the protocol: {key} is {names!r} (expected a list of names)")
    return tuple(str(name) for name in names)
