"""Keys of table encryption (section "Encryption Keys"): kept, never used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from deltaberg.iceberg.schema.json_object import JsonObject, rejected

_METADATA_KEYS = ("encrypted-key-metadata", "key-metadata")
_BY_KEYS = ("encrypted-by-id", "encrypted-by-id-metadata")
_KEYS = frozenset({"key-id", *_METADATA_KEYS, *_BY_KEYS, "properties"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionKey:
    """One key; the texts name two of its fields in two ways each, and each is written back as it was read."""

    key_id: str
    encrypted_key_metadata: str
    encrypted_by_id: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    metadata_key: str = "encrypted-key-metadata"
    by_key: str = "encrypted-by-id"
    extra: Mapping[str, object] = field(default_factory=dict, hash=False, compare=False, repr=False)

    def to_json(self) -> dict[str, object]:
        """The encryption key object."""
        result: dict[str, object] = {"key-id": self.key_id, self.metadata_key: self.encrypted_key_metadata}
        if self.encrypted_by_id is not None:
            result[self.by_key] = self.encrypted_by_id
        if self.properties:
            result["properties"] = dict(self.properties)
        return {**result, **self.extra}

    @classmethod
    def from_json(cls, value: object, path: str) -> EncryptionKey:
        """Parse an encryption key object. Raises CorruptMetadata."""
        node = JsonObject(value, path)
        metadata_key = next((key for key in _METADATA_KEYS if node.has(key)), None)
        if metadata_key is None:
            raise rejected(node.at(_METADATA_KEYS[0]), "the encrypted key", None)
        by_key = next((key for key in _BY_KEYS if node.has(key)), _BY_KEYS[0])
        return cls(
            key_id=node.text("key-id"),
            encrypted_key_metadata=node.text(metadata_key),
            encrypted_by_id=node.optional_text(by_key),
            properties=node.text_map("properties"),
            metadata_key=metadata_key,
            by_key=by_key,
            extra=node.extra(_KEYS),
        )
