"""Days and microseconds written in the hybrid calendar, read in the proleptic Gregorian one.

Spark before 3.0, and later in its LEGACY modes, counted dates before 1582-10-15 in the Julian calendar (as
``java.util.GregorianCalendar`` does) and local times before 1900 with each zone's present standard offset (as
``java.util.TimeZone`` does). Both table formats count in the proleptic Gregorian calendar with the zone's offset of
the day. The same local date and time of day is kept; a day that only the Julian calendar has (1000-02-29) is the next.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

GREGORIAN_START_DAY = -141427

# Zones whose offsets before 1900 differ between editions of the time zone database: since 2022 most of them are links
# to a neighbour, and some have changed their standard time. What a writer's Java knew of them cannot be told here.
_UNCERTAIN_ZONES = frozenset(
    """
    Africa/Accra Africa/Addis_Ababa Africa/Asmara Africa/Bamako Africa/Bangui Africa/Banjul Africa/Blantyre
    Africa/Brazzaville Africa/Bujumbura Africa/Conakry Africa/Dakar Africa/Dar_es_Salaam Africa/Djibouti
    Africa/Douala Africa/Freetown Africa/Gaborone Africa/Harare Africa/Kampala Africa/Kigali Africa/Kinshasa
    Africa/Libreville Africa/Lome Africa/Luanda Africa/Lubumbashi Africa/Lusaka Africa/Malabo Africa/Maputo
    Africa/Maseru Africa/Mbabane Africa/Mogadishu Africa/Niamey Africa/Nouakchott Africa/Ouagadougou
    Africa/Porto-Novo America/Anguilla America/Antigua America/Aruba America/Asuncion America/Atikokan
    America/Blanc-Sablon America/Cayman America/Chihuahua America/Creston America/Curacao America/Dominica
    America/Godthab America/Grenada America/Guadeloupe America/Matamoros America/Montserrat America/Nassau
    America/Nipigon America/Nuuk America/Ojinaga America/Port_of_Spain America/Rainy_River America/Scoresbysund
    America/St_Kitts America/St_Lucia America/St_Thomas America/St_Vincent America/Thunder_Bay America/Tortola
    America/Yellowknife Antarctica/Casey Antarctica/DumontDUrville Antarctica/McMurdo Antarctica/Syowa
    Antarctica/Vostok Asia/Aden Asia/Almaty Asia/Amman Asia/Bahrain Asia/Brunei Asia/Choibalsan Asia/Damascus
    Asia/Kuala_Lumpur Asia/Kuwait Asia/Manila Asia/Muscat Asia/Phnom_Penh Asia/Qostanay Asia/Vientiane
    Atlantic/Reykjavik Atlantic/St_Helena Europe/Amsterdam Europe/Copenhagen Europe/Guernsey Europe/Isle_of_Man
    Europe/Jersey Europe/Ljubljana Europe/Luxembourg Europe/Monaco Europe/Oslo Europe/Sarajevo Europe/Skopje
    Europe/Stockholm Europe/Uzhgorod Europe/Vaduz Europe/Zagreb Europe/Zaporozhye Indian/Antananarivo
    Indian/Christmas Indian/Cocos Indian/Comoro Indian/Kerguelen Indian/Mahe Indian/Mayotte Indian/Reunion
    Pacific/Chuuk Pacific/Funafuti Pacific/Majuro Pacific/Midway Pacific/Pohnpei Pacific/Saipan Pacific/Wake
    Pacific/Wallis
    """.split()  # noqa: SIM905
)
_DAY_US = 86_400_000_000
_YEAR_1900_US = -2_208_988_800_000_000
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2}):?(\d{2})?(?::?(\d{2}))?")


def gregorian_days(days: Int64s) -> Int64s:
    """Days since 1970-01-01 of the hybrid calendar as days of the proleptic Gregorian calendar."""
    old = days < GREGORIAN_START_DAY
    if not old.any():
        return days
    result = days.copy()
    result[old] = _julian_to_gregorian(days[old])
    return result


def _julian_to_gregorian(days: Int64s) -> Int64s:
    # Julian civil date of a day number, years beginning in March; 1 March of year 0 (Julian) is day -719470.
    shifted = days + 719_470
    era, day_of_era = np.divmod(shifted, 1461)
    year_of_era = np.minimum(day_of_era // 365, 3)
    day_of_year = day_of_era - 365 * year_of_era
    year = 4 * era + year_of_era
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5
    # Gregorian day number of the first of that month, plus the day of the month.
    century, year_of_century = np.divmod(year, 400)
    first_of_month = (153 * month_from_march + 2) // 5
    gregorian_day = 365 * year_of_century + year_of_century // 4 - year_of_century // 100 + first_of_month
    result: Int64s = century * 146_097 + gregorian_day - 719_468 + day
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridCalendar:
    """The calendar a file was written in. ``timezone`` is the writer's zone, which matters before 1900 only.

    Raises ValueError at construction for an unknown zone.
    """

    timezone: str = "UTC"

    def __post_init__(self) -> None:
        _zone(self.timezone)

    def days(self, days: Int64s) -> Int64s:
        """Hybrid days since 1970-01-01 as proleptic Gregorian days."""
        return gregorian_days(days)

    def micros(self, micros: Int64s) -> Int64s:
        """Microseconds since 1970-01-01T00:00Z whose local fields are hybrid, as proleptic Gregorian ones.

        Raises ValueError for one before 1900 in a zone whose offsets at that time are not certain.
        """
        old = micros < _YEAR_1900_US
        if not old.any():
            return micros
        if self.timezone in _UNCERTAIN_ZONES:
            raise ValueError(f"what the time zone {self.timezone} was before 1900 differs between time zone databases")
        result = micros.copy()
        result[old] = _rebase(micros[old], self.timezone)
        return result


def _rebase(micros: Int64s, zone: str) -> Int64s:
    written, changes = _history(zone)
    day, time_of_day = np.divmod(micros + written, _DAY_US)
    local = gregorian_days(day) * _DAY_US + time_of_day
    offsets = np.array([offset for _, offset in changes], np.int64)
    # A local time that occurs twice is the later one: no zone had summer time before 1900.
    starts = np.array([start + offset for start, offset in changes[1:]], np.int64)
    result: Int64s = local - offsets[np.searchsorted(starts, local, side="right")]
    return result


@lru_cache(maxsize=64)
def _history(name: str) -> tuple[int, tuple[tuple[int, int], ...]]:
    """The zone's present standard offset, and its offsets up to 1900, in microseconds."""
    zone = _zone(name)
    return _microseconds(_standard_offset(zone)), tuple(_offset_changes(zone))


def _offset_changes(zone: tzinfo) -> list[tuple[int, int]]:
    """(first instant, offset) in microseconds, ascending, up to 1900; the first instant is the beginning of time."""
    lowest, step = datetime(1600, 1, 1, tzinfo=timezone.utc), timedelta(days=30)
    end = datetime(1900, 1, 3, tzinfo=timezone.utc)
    offset = _offset_at(zone, lowest)
    changes = [(np.iinfo(np.int64).min // 2, offset)]
    at = lowest
    while at < end:
        after = at + step
        new = _offset_at(zone, after)
        if new != offset:
            low, high = at, after
            while high - low > timedelta(seconds=1):
                middle = low + (high - low) // 2
                middle = middle.replace(microsecond=0)
                low, high = (middle, high) if _offset_at(zone, middle) == offset else (low, middle)
            changes.append((int(high.timestamp()) * 1_000_000, new))
            offset = new
        at = after
    return changes


def _zone(name: str) -> tzinfo:
    if name.upper() in {"UTC", "GMT", "UT", "Z"}:
        return timezone.utc
    fixed = _OFFSET.fullmatch(name)
    if fixed:
        sign, hours, minutes, seconds = fixed.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0))
        if offset > timedelta(hours=18):
            raise ValueError(f"no time zone {name!r}")
        return timezone(-offset if sign == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"no time zone {name!r} on this machine") from error


def _standard_offset(zone: tzinfo) -> timedelta:
    year = datetime(2037, 1, 1, tzinfo=timezone.utc)
    return min(_offset_of(zone, year + timedelta(days=day)) for day in range(365))


def _offset_of(zone: tzinfo, moment: datetime) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta(0)


def _offset_at(zone: tzinfo, moment: datetime) -> int:
    return _microseconds(_offset_of(zone, moment))


def _microseconds(offset: timedelta) -> int:
    return offset // timedelta(microseconds=1)
