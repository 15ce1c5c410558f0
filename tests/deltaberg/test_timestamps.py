from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from deltaberg.errors import UsageError
from deltaberg.timestamps import moment_ms, moment_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01", 0),
        ("2024-05-01", 1_714_521_600_000),
        ("2024-05-01 13:30", 1_714_570_200_000),
        ("2024-05-01T13:30:15", 1_714_570_215_000),
        ("2024-05-01T13:30:15Z", 1_714_570_215_000),
        ("2024-05-01T13:30:15z", 1_714_570_215_000),
        ("2024-05-01T13:30:15.25Z", 1_714_570_215_250),
        ("2024-05-01T13:30:15.123999+02:00", 1_714_563_015_123),
        ("2024-05-01T13:30:15-0530", 1_714_590_015_000),
        (" 2024-05-01 13:30:15 +00:00 ", 1_714_570_215_000),
        ("1969-12-31T23:59:59.999Z", -1),
        ("0001-01-01", -62_135_596_800_000),
    ],
)
def test_iso_8601_is_read_in_utc_unless_it_says(text: str, expected: int) -> None:
    assert moment_ms(text) == expected


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2024-5-1", "2024-05-01T13", "1714521600000", "2024-05-01T13:30:15.1234567890"]
)
def test_other_text_is_refused_with_examples(text: str) -> None:
    with pytest.raises(
        UsageError, match=r"Cannot read the moment .*: it is not ISO 8601 \(expected such as 2024-05-01"
    ):
        moment_ms(text)


@pytest.mark.parametrize("text", ["2024-02-30", "2024-05-01T25:00", "2024-13-01"])
def test_a_day_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=f"Cannot read the moment '{text}'"):
        moment_ms(text)


def test_a_datetime_keeps_its_zone_and_is_utc_without_one() -> None:
    assert moment_ms(datetime(2024, 5, 1, 13, 30)) == 1_714_570_200_000
    assert moment_ms(datetime(2024, 5, 1, 13, 30, tzinfo=timezone(timedelta(hours=2)))) == 1_714_563_000_000
    assert moment_ms(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone.utc)) == -1


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [
        (0, "1970-01-01 00:00:00 UTC"),
        (1_714_521_600_250, "2024-05-01 00:00:00.250 UTC"),
        (-1, "1969-12-31 23:59:59.999 UTC"),
        (2**62, f"{2**62} ms"),
    ],
)
def test_milliseconds_are_written_as_a_moment_in_utc(timestamp_ms: int, text: str) -> None:
    assert moment_text(timestamp_ms) == text
