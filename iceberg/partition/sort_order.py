"""Sort orders (section "Sorting", JSON in Appendix C)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from deltaberg.iceberg.errors import InvalidIcebergRequest
from deltaberg.iceberg.partition.partition_spec import parse_sources
from deltaberg.iceberg.partition.transforms import Transform, UnknownTransform, check_transform
from deltaberg.iceberg.schema.json_object import JsonObject, rejected
from deltaberg.iceberg.schema.schema import Schema

_KEYS = frozenset({"order-id", "fields"})
_E = TypeVar("_E", bound=Enum)
_FIELD_KEYS = frozenset({"transform", "source-id", "source-ids", "direction", "null-order"})


class SortDirection(Enum):
    """Ascending or descending."""

    ASC = "asc"
    DESC = "desc"


class NullOrder(Enum):
    """Where nulls go."""

    NULLS_FIRST = "nulls-first"
    NULLS_LAST = "nulls-last"


@dataclass(frozen=True, slots=True, kw_only=True)
class SortField:
    """One key of a sort order."""

    source_ids: tuple[int, ...]
    transform: Transform
    direction: SortDirection
    null_order: NullOrder
    extra: Mapping[str, object] = field(default_factory=dict, hash=False, compare=False, repr=False)

    @property
    def source_id(self) -> int:
        """The id of the source column (the first one of a multi-argument transform)."""
        return self.source_ids[0]

    def to_json(self) -> dict[str, object]:
        """The sort field object of Appendix C."""
        sources: dict[str, object] = (
            {"source-id": self.source_id} if len(self.source_ids) == 1 else {"source-ids": list(self.source_ids)}
        )
        return {
            "transform": str(self.transform),
            **sources,
            "direction": self.direction.value,
            "null-order": self.null_order.value,
            **self.extra,
        }

    @classmethod
    def from_json(cls, value: object, path: str) -> SortField:
        """Parse one sort field. Raises CorruptMetadata."""
        node = JsonObject(value, path)
        transform, source_ids = parse_sources(node)
        return cls(
            source_ids=source_ids,
            transform=transform,
            direction=_choice(SortDirection, node, "direction"),
            null_order=_choice(NullOrder, node, "null-order"),
            extra=node.extra(_FIELD_KEYS),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SortOrder:
    """The order of rows in files; id 0 is reserved for unsorted."""

    order_id: int
    fields: tuple[SortField, ...] = ()
    extra: Mapping[str, object] = field(default_factory=dict, hash=False, compare=False, repr=False)

    @property
    def is_unsorted(self) -> bool:
        """True without fields."""
        return not self.fields

    def check(self, schema: Schema) -> None:
        """Raise InvalidIcebergRequest unless rows of a schema can be sorted so."""
        if (self.order_id == 0) != self.is_unsorted:
            raise InvalidIcebergRequest(f"Cannot use sort order {self.order_id}: id 0 is for the unsorted order only")
        for part in self.fields:
            source = schema.find(part.source_id)
            if source is None or isinstance(part.transform, UnknownTransform):
                raise InvalidIcebergRequest(
                    f"Cannot use sort order {self.order_id}: its field over column {part.source_id} cannot be applied"
                )
            check_transform(part.transform, source.type, f"sort field over {source.name}")

    def same_fields(self, other: SortOrder) -> bool:
        """True when only the order id may differ."""
        return self.fields == other.fields

    def to_json(self) -> dict[str, object]:
        """The sort order object of Appendix C."""
        return {"order-id": self.order_id, "fields": [part.to_json() for part in self.fields], **self.extra}

    @classmethod
    def from_json(cls, value: object, path: str = "$") -> SortOrder:
        """Parse a sort order object. Raises CorruptMetadata."""
        node = JsonObject(value, path)
        return cls(
            order_id=node.integer("order-id", low=0),
            fields=tuple(SortField.from_json(item, at) for item, at in node.items("fields")),
            extra=node.extra(_KEYS),
        )


UNSORTED = SortOrder(order_id=0)


def _choice(choices: type[_E], node: JsonObject, key: str) -> _E:
    text = node.text(key)
    try:
        return choices(text)
    except ValueError as error:
        expected = "one of " + ", ".join(repr(item.value) for item in choices)
        raise rejected(node.at(key), expected, text) from error
