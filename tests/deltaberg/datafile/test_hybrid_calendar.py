"""The hybrid calendar: the same day and time of day, whatever counted it."""

from __future__ import annotations

import datetime as dt
import importlib.util
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaberg.datafile.hybrid_calendar import HybridCalendar, gregorian_days

DAY = 86_400_000_000
ZONES = [
    "UTC", "America/Los_Angeles", "America/New_York", "America/Sao_Paulo", "Europe/London", "Europe/Berlin",
    "Europe/Paris", "Europe/Madrid", "Europe/Rome", "Europe/Moscow", "Europe/Dublin", "Asia/Kolkata", "Asia/Shanghai",
    "Asia/Tokyo", "Asia/Hong_Kong", "Asia/Singapore", "Australia/Sydney", "Africa/Cairo", "Africa/Johannesburg",
    "Pacific/Auckland", "America/Chicago", "America/Toronto", "Asia/Dubai", "Etc/GMT+9", "PST8PDT",
]  # fmt: skip


def julian_day_number(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a Julian calendar date, counted year by year."""
    years = range(1, year) if year >= 1 else range(year, 1)
    days = sum(366 if y % 4 == 0 else 365 for y in years) * (1 if year >= 1 else -1)
    lengths = [31, 29 if year % 4 == 0 else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    return days + sum(lengths[: month - 1]) + day - 1 - 719_164


@settings(deadline=None)
@given(st.integers(-4000, 1581), st.integers(1, 12), st.integers(1, 29))
def test_a_julian_date_keeps_its_year_month_and_day(year: int, month: int, day: int) -> None:
    if day == 29 and month == 2 and year % 4:
        day = 28
    found = int(gregorian_days(np.array([julian_day_number(year, month, day)]))[0])
    if year >= 1:
        expected = dt.date(year, month, 1).toordinal() - 719_163 + day - 1
        assert found == expected
    else:
        # 400 Gregorian years are 146,097 days.
        shift = -(-(1 - year) // 400)
        assert found == dt.date(year + 400 * shift, month, 1).toordinal() - 719_163 + day - 1 - 146_097 * shift


def test_days_since_the_gregorian_reform_stay() -> None:
    days = np.array([-141_427, -141_426, -1, 0, 2_932_896])
    assert gregorian_days(days).tolist() == days.tolist()
    assert gregorian_days(np.array([-141_428])).tolist() == [-141_438]


@settings(deadline=None)
@given(st.lists(st.integers(-62_135_769_600_000_000, 10**15)))
def test_instants_in_utc_move_by_whole_days(micros: list[int]) -> None:
    values = np.array(micros, np.int64)
    moved = HybridCalendar().micros(values)
    expected = np.where(values < -2_208_988_800_000_000, gregorian_days(values // DAY) * DAY + values % DAY, values)
    assert np.array_equal(moved, expected)


@pytest.mark.parametrize("zone", ZONES)
def test_instants_move_as_spark_moves_them(zone: str) -> None:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        pytest.skip("pyspark is absent")
    jars = sorted((Path(found.origin).parent / "jars").glob("spark-sql-api*.jar"))
    if not jars:
        pytest.skip("pyspark has no jars")
    with zipfile.ZipFile(jars[0]) as jar:
        table = json.loads(jar.read("julian-gregorian-rebase-micros.json"))
    (record,) = (record for record in table if record["tz"] == zone)
    switches = np.array(record["switches"], np.int64) * 1_000_000
    differences = np.array(record["diffs"], np.int64) * 1_000_000
    between = np.random.default_rng(7).integers(switches[0], 0, 500)
    micros = np.concatenate([switches, switches + 1, switches[1:] - 1, between])
    expected = micros + differences[np.searchsorted(switches, micros, side="right") - 1]
    assert np.array_equal(HybridCalendar(timezone=zone).micros(micros), expected)


@pytest.mark.parametrize("zone", ["+05:30", "UTC+05:30", "GMT+5:30", "+0530"])
def test_fixed_offsets_are_zones(zone: str) -> None:
    hours = 5 * 3_600_000_000 + 1_800_000_000
    local_midnight = -719_164 * DAY - hours
    assert HybridCalendar(timezone=zone).micros(np.array([local_midnight])).tolist() == [-719_162 * DAY - hours]


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "+99:00", "/etc/localtime"])
def test_zones_that_nobody_knows_are_refused(zone: str) -> None:
    with pytest.raises(ValueError, match="no time zone"):
        HybridCalendar(timezone=zone)


def test_zones_whose_past_is_disputed_are_refused_before_1900_only() -> None:
    calendar = HybridCalendar(timezone="Europe/Amsterdam")
    assert calendar.micros(np.array([0, -2_208_988_800_000_000])).tolist() == [0, -2_208_988_800_000_000]
    assert calendar.days(np.array([-719_164])).tolist() == [-719_162]
    with pytest.raises(ValueError, match="Europe/Amsterdam was before 1900 differs"):
        calendar.micros(np.array([-2_208_988_800_000_001]))
