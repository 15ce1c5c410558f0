from __future__ import annotations

from typing import Any

import pytest

from deltaberg.iceberg.schema import types as ice
from deltaberg.translate.sql_literal import LiteralError, delta_to_iceberg_default, iceberg_to_delta_default

DECIMAL = ice.DecimalType(precision=9, scale=2)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("NULL", ice.LongType(), None),
        ("true", ice.BooleanType(), True),
        ("-42", ice.IntegerType(), -42),
        ("42L", ice.LongType(), 42),
        ("1.5", ice.DoubleType(), 1.5),
        ("1e3D", ice.DoubleType(), 1000.0),
        ("12.5", DECIMAL, "12.50"),
        ("'a b'", ice.StringType(), "a b"),
        ('"a"', ice.StringType(), "a"),
        ("DATE'2024-02-29'", ice.DateType(), "2024-02-29"),
        ("TIMESTAMP'2024-01-01 00:00:00Z'", ice.TimestamptzType(), "2024-01-01T00:00:00.000000+00:00"),
        ("TIMESTAMP_NTZ'2024-01-01 01:02:03.5'", ice.TimestampType(), "2024-01-01T01:02:03.500000"),
        ("X'0aff'", ice.BinaryType(), "0AFF"),
    ],
)
def test_literals_become_single_values(text: str, kind: Any, value: object) -> None:
    assert delta_to_iceberg_default(text, kind) == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("current_timestamp()", ice.TimestamptzType()),
        ("1 + 1", ice.LongType()),
        ("2147483648", ice.IntegerType()),
        ("12.345", DECIMAL),
        ("12345678.9", DECIMAL),
        ("'it''s'", ice.StringType()),
        (r"'it\'s'", ice.StringType()),
        ("'1'", ice.LongType()),
        ("TIMESTAMP'2024-01-01 00:00:00'", ice.TimestamptzType()),
        ("DATE'2024-02-30'", ice.DateType()),
        (
            "array(1)",
            ice.ListType(element=ice.NestedField(field_id=1, name="element", required=False, type=ice.LongType())),
        ),
    ],
)
def test_everything_else_is_an_expression(text: str, kind: Any) -> None:
    with pytest.raises(LiteralError):
        delta_to_iceberg_default(text, kind)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, ice.LongType(), "NULL"),
        (False, ice.BooleanType(), "false"),
        (7, ice.LongType(), "7"),
        (1.5, ice.DoubleType(), "1.5D"),
        ("12.50", DECIMAL, "12.50BD"),
        ("it's \\ so", ice.StringType(), r"'it\'s \\ so'"),
        ("2024-02-29", ice.DateType(), "DATE'2024-02-29'"),
        ("2024-01-01T00:00:00+00:00", ice.TimestamptzType(), "TIMESTAMP'2024-01-01 00:00:00Z'"),
        ("0AFF", ice.BinaryType(), "X'0AFF'"),
    ],
)
def test_single_values_become_literals(value: object, kind: Any, text: str) -> None:
    assert iceberg_to_delta_default(value, kind) == text


def test_values_without_a_literal_are_refused() -> None:
    with pytest.raises(LiteralError):
        iceberg_to_delta_default("f79c3e09-677c-4bbd-a479-3f349cb785e7", ice.UuidType())
