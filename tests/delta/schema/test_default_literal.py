"""A default counts as a literal in the bare form of its column's type, as both reference implementations parse it."""

from __future__ import annotations

import pytest

from deltaberg.delta.schema.default_literal import is_literal
from deltaberg.delta.schema.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DeltaType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    TimestampNtzType,
    TimestampType,
    VariantType,
)

MONEY = DecimalType(precision=5, scale=2)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("true", BooleanType()),
        ("-128", ByteType()),
        ("2147483647", IntegerType()),
        ("-9223372036854775808", LongType()),
        ("1.5e3", DoubleType()),
        ("-Infinity", DoubleType()),
        ("999.99", MONEY),
        ("1e2", MONEY),
        ("'it\\'s'", StringType()),
        ('"two"', StringType()),
        ("''", StringType()),
        ("X'00fF'", BinaryType()),
        ("'text'", BinaryType()),
        ("'2024-02-29'", DateType()),
        ("'2024-02-29T23:59:59.5Z'", TimestampType()),
        ("'2024-02-29 23:59:59'", TimestampNtzType()),
    ],
)
def test_bare_literals(text: str, kind: DeltaType) -> None:
    assert is_literal(text, kind)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("NULL", LongType()),
        ("rand()", DoubleType()),
        ("current_date()", DateType()),
        ("128", ByteType()),
        ("1.5", IntegerType()),
        ("1.5BD", MONEY),
        ("1000", MONEY),
        ("0.001", MONEY),
        ("text", StringType()),
        ("'it''s'", StringType()),
        ("DATE'2024-02-29'", DateType()),
        ("'2023-02-29'", DateType()),
        ("'20240229'", DateType()),
        ("'2024-02-29T23:59:59Z'", TimestampNtzType()),
        ("'2024-13-01 00:00:00'", TimestampType()),
        ("1", ArrayType(element_type=LongType())),
        ("NULL", VariantType()),
    ],
)
def test_expressions_and_literals_of_other_types_or_forms(text: str, kind: DeltaType) -> None:
    assert not is_literal(text, kind)
