"""Time formats: texts and numbers become the milliseconds and the ISO text that datetime makes of them."""

import json
import tracemalloc
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logflume.parsing import moments
from logflume.parsing.time_formats import FORMATS, TimestampRule, column_parser, parser, zone_named

# 2026-11-21T07:25:00Z, a LastModified.
MODIFIED_MS = 1_795_245_900_000
BERLIN = ZoneInfo("Europe/Berlin")

utc_times = st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))
wall_times = st.datetimes(datetime(1973, 1, 2), datetime(2150, 1, 1))
zones = st.sampled_from(
    [BERLIN, ZoneInfo("America/New_York"), ZoneInfo("Australia/Lord_Howe"), ZoneInfo("Asia/Kolkata")]
)
offsets = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))


def read(value: Any, *formats: str, zone: str = "UTC", reference_ms: int = MODIFIED_MS) -> moments.Moment | None:
    return parser(formats, zone)(value, reference_ms)


def text(value: Any, *formats: str, zone: str = "UTC", reference_ms: int = MODIFIED_MS) -> str | None:
    found = read(value, *formats, zone=zone, reference_ms=reference_ms)
    return found[1] if found else None


def milliseconds(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def assert_same(found: moments.Moment | None, moment: datetime) -> None:
    """Both parts say the same time as datetime does."""
    assert found is not None
    assert found[0] == milliseconds(moment)
    assert datetime.fromisoformat(found[1]) == moment
    assert found[1].endswith("Z")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-11-21T07:25:00Z", "2026-11-21T07:25:00Z"),
        ("2026-11-21T07:25:00.1Z", "2026-11-21T07:25:00.1Z"),
        ("2026-11-21T07:25:00.123456789Z", "2026-11-21T07:25:00.123456789Z"),
        ("2026-11-21T07:25:00.1234567891234Z", "2026-11-21T07:25:00.123456789Z"),
        ("2026-11-21T07:25:00,123", "2026-11-21T07:25:00.123Z"),
        ("2026-11-21T07:25:00,1234567891", "2026-11-21T07:25:00.123456789Z"),
        ("2026-11-21 07:25:00", "2026-11-21T07:25:00Z"),
        ("2026-11-21t07:25:00z", "2026-11-21T07:25:00Z"),
        ("2026-11-21T07:25:00+02:00", "2026-11-21T05:25:00Z"),
        ("2026-11-21T07:25:00.123456+0000", "2026-11-21T07:25:00.123456Z"),
        ("2026-11-21T00:25:00.5-05", "2026-11-21T05:25:00.5Z"),
        ("2026-11-21 07:25:00 +0100", "2026-11-21T06:25:00Z"),
        ("2026-11-21 07:25:00.123 UTC", "2026-11-21T07:25:00.123Z"),
        ("2026-11-21T07:25Z", "2026-11-21T07:25:00Z"),
        ("2026-11-21", "2026-11-21T00:00:00Z"),
        ("20261121T072500Z", "2026-11-21T07:25:00Z"),
        ("20261121T072500.25+0100", "2026-11-21T06:25:00.25Z"),
    ],
)
def test_iso_8601_keeps_the_digits_that_it_has(value: str, expected: str) -> None:
    found = read(value, "iso8601")
    assert found is not None
    assert found[1] == expected
    assert found[0] == milliseconds(datetime.fromisoformat(expected))


@pytest.mark.parametrize(
    "value",
    [
        "", "Z", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-11-21T24:00:00Z", "2026-11-21T07:25:60Z",
        "2026-11-21T07:60:00Z", "1969-12-31T23:59:59Z", "0000-01-01T00:00:00Z", "2026-11-21T07:25:00.Z",
        "2026-11-21T07:25:00.12aZ", "2026-11-21T07:25:00.123aZ", "2026-11-21T07:25:00.123\u0661Z",
        "2026-11-21T07:25:00+24:00", "2026-11-21T07:25:00+00:60", "2026-11-21T07:25:00 CET", "2026-11-21T07:25:00Zx",
        "\u0662026-11-21T07:25:00Z", "2026-1121T07:25:00Z", "2026-11-21T07:25:00Z\n", " 2026-11-21T07:25:00Z",
        "9999-12-31T23:59:59-01:00", "2026", "x" * 1_000_000, "2" * 1_000_000 + "Z", None, True, 1_795_245_900, b"x",
        [], {}, 1.5, float("nan"),
    ],
)  # fmt: skip
def test_what_is_no_iso_8601_is_refused(value: Any) -> None:
    assert read(value, "iso8601") is None


@given(utc_times, st.sampled_from(["seconds", "milliseconds", "microseconds"]), offsets, st.sampled_from("T "))
def test_iso_8601_reads_what_datetime_writes(moment: datetime, precision: str, offset: timezone, between: str) -> None:
    written = moment.astimezone(offset).isoformat(between, precision)
    expected = datetime.fromisoformat(written)
    if expected < datetime(1970, 1, 1, tzinfo=UTC):
        assert read(written, "iso8601") is None
    else:
        assert_same(read(written, "iso8601"), expected)
        assert_same(read(written.replace("+00:00", "Z"), "auto"), expected)


written_alike = st.tuples(
    st.sampled_from(["T", " ", "t", ""]), st.sampled_from(".,;"), st.sampled_from(["", "Z", "+0000", "+02:00", "-0730"])
).flatmap(
    lambda alike: st.lists(
        utc_times.map(lambda time: f"{time:%Y-%m-%d}{alike[0]}{time:%H:%M:%S}{alike[1]}{time:%f}{alike[2]}"), min_size=1
    )
)
digits_of_another_script = "2026-11-21T07:25:00.12345\u0663Z"


@given(
    written_alike,
    st.lists(st.sampled_from([None, "", "-", 1, {}, "2026-11-21T07:25:00Z", digits_of_another_script]), max_size=2),
    st.sampled_from(["UTC", "Europe/Berlin"]),
    st.sampled_from([("iso8601",), ("auto",), ("iso8601", "epoch_s")]),
)
def test_a_column_is_read_as_its_values_are(
    times: list[str], others: list[Any], zone: str, formats: tuple[str, ...]
) -> None:
    values = [*times, *others]
    found, expected = (
        column_parser(formats, zone)(values, MODIFIED_MS),
        [read(one, *formats, zone=zone) for one in values],
    )
    if isinstance(found, moments.Alike):
        first, last = min(filter(None, expected)), max(filter(None, expected))
        assert [*found.texts] == [one and one[1] for one in expected]
        assert (found.earliest_ms, found.latest_ms) == (first[0], last[0])
        assert first[1][:10] == last[1][:10]
    else:
        assert found == expected


@given(wall_times, zones, st.integers(0, 999_999_999))
def test_a_time_without_a_zone_is_the_rules(wall: datetime, zone: ZoneInfo, nanoseconds: int) -> None:
    written = f"{wall:%Y-%m-%d %H:%M:%S}.{nanoseconds:09d}"
    found = read(written, "iso8601", zone=zone.key)
    assert found is not None
    moment = wall.replace(microsecond=nanoseconds // 1000, tzinfo=zone).astimezone(UTC)
    assert found == (milliseconds(moment), f"{moment:%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z")


@pytest.mark.parametrize(
    ("wall", "expected"),
    [
        ("2026-10-25 02:30:00", "2026-10-25T00:30:00Z"),  # comes twice: the first, still summer time
        ("2026-03-29 02:30:00", "2026-03-29T01:30:00Z"),  # left out: counts on from 01:59
        ("2026-03-29 03:00:00", "2026-03-29T01:00:00Z"),
    ],
)
def test_clocks_that_change_give_one_answer(wall: str, expected: str) -> None:
    assert text(wall, "iso8601", zone="Europe/Berlin") == expected
    assert text(wall, "%Y-%m-%d %H:%M:%S", zone="Europe/Berlin") == expected


@given(utc_times, offsets)
def test_httpdate_reads_what_strftime_writes(moment: datetime, offset: timezone) -> None:
    local = moment.replace(microsecond=0).astimezone(offset)
    written = f"{local:%d}/{local.ctime()[4:7]}/{local.year:04d}:{local:%H:%M:%S %z}"
    if local < datetime(1970, 1, 1, tzinfo=UTC):
        assert read(written, "httpdate") is None
    else:
        assert_same(read(written, "httpdate"), local)
        assert read(written, "%d/%b/%Y:%H:%M:%S %z") == read(written, "httpdate")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("10/Oct/2000:13:55:36 -0700", "2000-10-10T20:55:36Z"),
        ("10/oct/2000:13:55:36 -0700", "2000-10-10T20:55:36Z"),
        ("10/Oct/2000:13:55:36", "2000-10-10T11:55:36Z"),
        ("10/Okt/2000:13:55:36 -0700", None),
        ("31/Feb/2000:13:55:36 -0700", None),
        ("10/Oct/2000:13:55:61 -0700", None),
        ("10/Oct/2000:13:55:36 -9900", None),
        ("10/Oct/2000:13:55:36 CEST!", None),
        ("-", None),
        (None, None),
    ],
)
def test_httpdate(value: Any, expected: str | None) -> None:
    assert text(value, "httpdate", zone="Europe/Berlin") == expected


@pytest.mark.parametrize(
    ("value", "modified", "expected"),
    [
        ("Nov 21 07:24:59", "2026-11-21T07:25:00Z", "2026-11-21T07:24:59Z"),
        ("Nov  1 07:24:59", "2026-11-21T07:25:00Z", "2026-11-01T07:24:59Z"),
        ("Nov 22 07:25:00", "2026-11-21T07:25:00Z", "2026-11-22T07:25:00Z"),
        ("Nov 22 07:26:00", "2026-11-21T07:25:00Z", "2025-11-22T07:26:00Z"),
        ("Dec 31 23:59:59", "2026-01-01T00:10:00Z", "2025-12-31T23:59:59Z"),
        ("Jan  1 00:00:01", "2025-12-31T23:59:00Z", "2026-01-01T00:00:01Z"),
        ("Feb 29 12:00:00", "2025-02-01T00:00:00Z", "2024-02-29T12:00:00Z"),
        ("Feb 29 12:00:00", "2027-03-01T00:00:00Z", None),
        ("Nov 21 07:24:59.123456", "2026-11-21T07:25:00Z", "2026-11-21T07:24:59.123456Z"),
        ("Nov 31 07:24:59", "2026-11-21T07:25:00Z", None),
        ("Nov 21 07:24:59 host", "2026-11-21T07:25:00Z", None),
        ("Nov 21", "2026-11-21T07:25:00Z", None),
        (7, "2026-11-21T07:25:00Z", None),
    ],
)
def test_syslog_takes_the_last_year_that_is_not_in_the_future(value: Any, modified: str, expected: str | None) -> None:
    reference_ms = milliseconds(datetime.fromisoformat(modified))
    assert text(value, "syslog", reference_ms=reference_ms) == expected
    if "." not in str(value):
        assert text(value, "%b %e %H:%M:%S", reference_ms=reference_ms) == expected


def test_one_parser_guesses_the_year_anew_for_another_object() -> None:
    parsers = [parser(["syslog"]), parser(["%b %d %H:%M:%S"])]
    for parse in parsers:
        found = [parse("Nov 21 07:24:59", MODIFIED_MS - years * 360 * 86_400_000) for years in (0, 5, 0)]
        assert [one[1][:4] for one in found if one] == ["2026", "2021", "2026"]


@pytest.mark.parametrize(
    ("value", "name", "expected"),
    [
        (1_795_245_900, "epoch_s", "2026-11-21T07:25:00Z"),
        (0, "epoch_s", "1970-01-01T00:00:00Z"),
        ("1795245900", "epoch_s", "2026-11-21T07:25:00Z"),
        (1_795_245_900.123456, "epoch_s", "2026-11-21T07:25:00.123456Z"),
        ("1795245900.123456789", "epoch_s", "2026-11-21T07:25:00.123456789Z"),
        (1_795_245_900.0, "epoch_s", "2026-11-21T07:25:00.0Z"),
        (1_795_245_900_123, "epoch_ms", "2026-11-21T07:25:00.123Z"),
        ("1795245900123.25", "epoch_ms", "2026-11-21T07:25:00.12325Z"),
        (1_795_245_900_123_456, "epoch_us", "2026-11-21T07:25:00.123456Z"),
        (1_795_245_900_123_456_789, "epoch_ns", "2026-11-21T07:25:00.123456789Z"),
        (1.7952459e18, "epoch_ns", "2026-11-21T07:25:00.000000000Z"),
        (0.00001, "epoch_s", "1970-01-01T00:00:00.000010000Z"),
        (253_402_300_799, "epoch_s", "9999-12-31T23:59:59Z"),
        (253_402_300_800, "epoch_s", None),
        (10**400, "epoch_s", None),
        (-1, "epoch_s", None),
        (-0.5, "epoch_s", None),
        (True, "epoch_s", None),
        ("", "epoch_s", None),
        ("1.", "epoch_s", None),
        (".5", "epoch_s", None),
        ("1e9", "epoch_s", None),
        (" 1795245900", "epoch_s", None),
        ("1_795_245_900", "epoch_s", None),
        ("\u0661795245900", "epoch_s", None),
        ("1" * 5000, "epoch_s", None),
        (float("inf"), "epoch_s", None),
        (float("nan"), "epoch_s", None),
        (None, "epoch_s", None),
        ([1], "epoch_s", None),
    ],
)
def test_epochs(value: Any, name: str, expected: str | None) -> None:
    assert text(value, name) == expected


@given(st.integers(0, 253_402_300_799 * 10**9), st.sampled_from([("s", 9), ("ms", 6), ("us", 3), ("ns", 0)]))
def test_epochs_are_exact(nanoseconds: int, unit: tuple[str, int]) -> None:
    name, digits = unit
    value, rest = divmod(nanoseconds, 10**digits)
    found = read(value, f"epoch_{name}")
    exact = nanoseconds - rest
    assert found is not None
    assert found[0] == exact // 10**6
    whole, _, fraction = found[1].removesuffix("Z").partition(".")
    assert int(datetime.fromisoformat(f"{whole}Z").timestamp()) == exact // 10**9
    assert len(fraction) == 9 - digits
    assert int(fraction or 0) == exact % 10**9 // 10**digits
    assert read(f"{nanoseconds // 10**9}.{nanoseconds % 10**9:09d}", "epoch_s") == read(nanoseconds, "epoch_ns")


@given(st.floats())
def test_no_float_breaks_a_format(value: float) -> None:
    found = read(value, "epoch_s")
    assert (found is not None) == (0 <= value < 253_402_300_800)
    if found:
        assert abs(found[0] / 1000 - value) < 0.002


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1_795_245_900, "2026-11-21T07:25:00Z"),
        (1_795_245_900_123, "2026-11-21T07:25:00.123Z"),
        ("1795245900123456", "2026-11-21T07:25:00.123456Z"),
        (1_795_245_900_123_456_789, "2026-11-21T07:25:00.123456789Z"),
        (1_795_245_900.5, "2026-11-21T07:25:00.5Z"),
        ("2026-11-21T07:25:00Z", "2026-11-21T07:25:00Z"),
        ("20261121", "2026-11-21T00:00:00Z"),
        (20261121, None),
        (42, None),
        ("yesterday", None),
    ],
)
def test_auto_knows_the_unit_by_the_size(value: Any, expected: str | None) -> None:
    assert text(value, "auto") == expected


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("%Y/%m/%d %H:%M:%S", "2026/11/21 07:25:00", "2026-11-21T07:25:00Z"),
        ("%Y/%m/%d %T", "2026/11/21   07:25:00", "2026-11-21T07:25:00Z"),
        ("%Y%m%d%H%M%S", "20261121072500", "2026-11-21T07:25:00Z"),
        ("%a %b %d %H:%M:%S %Y", "Sat Nov 21 07:25:00 2026", "2026-11-21T07:25:00Z"),
        ("%A, %d %B %Y %I:%M:%S %p", "Saturday, 21 November 2026 12:25:00 AM", "2026-11-21T00:25:00Z"),
        ("%A, %d %B %Y %I:%M %p", "saturday, 21 november 2026 07:25 pm", "2026-11-21T19:25:00Z"),
        ("%a, %d %b %Y %T %Z", "Sat, 21 Nov 2026 07:25:00 GMT", "2026-11-21T07:25:00Z"),
        ("%d.%m.%y", "21.11.26", "2026-11-21T00:00:00Z"),
        ("%y-%j", "70-002", "1970-01-02T00:00:00Z"),
        ("%Y-%j", "2024-366", "2024-12-31T00:00:00Z"),
        ("%Y-%j", "2026-366", None),
        ("%Y-%j", "2026-000", None),
        ("%Y-%j", "9999-999", None),
        ("%F %T,%f %z", "2026-11-21 07:25:00,123456789 +01:00", "2026-11-21T06:25:00.123456789Z"),
        ("[%F]%%", "[2026-11-21]%", "2026-11-21T00:00:00Z"),
        ("%F%%T", "2026-11-21%T", "2026-11-21T00:00:00Z"),
        ("%d.%m.%Y", "21x11.2026", None),
        ("%d.%m.%Y", "31.11.2026", None),
        ("%d.%m.%Y", "21.11.2026 ", None),
        ("%d.%m.%Y %Z", "21.11.2026 CET", None),
        ("%d.%m.%Y", 21112026, None),
        ("%Y%m%d", "2" * 100_000, None),
        ("%F %T", f"2026-11-21{' ' * 111}07:25:00", None),
    ],
)
def test_strptime_patterns(pattern: str, value: Any, expected: str | None) -> None:
    assert text(value, pattern) == expected


PATTERNS = ["%Y-%m-%d %H:%M:%S.%f", "%d/%b/%Y:%H:%M:%S %z", "%A %B %d %I:%M:%S %p %Y", "%y%m%d %H%M%S", "%j %Y %H"]


@given(st.datetimes(datetime(1971, 1, 1), datetime(2068, 12, 30)), st.sampled_from(PATTERNS))
def test_patterns_mean_what_strptime_means(moment: datetime, pattern: str) -> None:
    written = moment.replace(tzinfo=UTC).strftime(pattern)
    expected = datetime.strptime(written, pattern)
    assert_same(read(written, pattern), expected.replace(tzinfo=expected.tzinfo or UTC))


@given(st.text(max_size=40), st.sampled_from([*FORMATS, *PATTERNS]))
def test_no_text_breaks_a_format(value: str, name: str) -> None:
    found = read(value, name)
    assert found is None or json.loads(json.dumps(found[1])) == found[1]


def test_the_first_format_that_takes_the_value_counts() -> None:
    assert text("1795245900", "httpdate", "epoch_s", "iso8601") == "2026-11-21T07:25:00Z"
    assert text("x", "httpdate", "epoch_s", "iso8601") is None


def test_the_caches_are_bounded() -> None:
    cache = moments.Cache[int, int](lambda key: -key)
    for key in range(10_000):
        assert cache[key] == cache[key] == -key
    assert len(cache) <= 4096


@pytest.mark.parametrize("name", [*FORMATS, *PATTERNS])
def test_a_parser_keeps_nothing_of_long_texts(name: str) -> None:
    parse = parser([name])
    beginnings = ["2026-11-21T07:25:00Z", "10/Oct/2000:13:55:36 -0700", "Nov 21 07:25:00", "1795245900", "x"]
    tracemalloc.start()
    try:
        for number in range(200):
            for beginning in beginnings:
                parse(f"{beginning}{number:020000d}", MODIFIED_MS)
                parse(f"{number:020000d}{beginning}", MODIFIED_MS)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("iso8610", "did you mean 'iso8601'?"),
        ("%Y-%m-%d %Q", "%Q in '%Y-%m-%d %Q' is no directive; there are: %Y"),
        ("%Y-%m-%d%", "% in '%Y-%m-%d%' is no directive"),
        ("%Y-%m-%d %d", "%d stands twice"),
        ("%H:%M:%S", "needs a day"),
        ("%Y-%y-%m-%d", "the year or the month twice"),
        ("%j", "%j goes with a year"),
        ("%F %I", "%I goes with %p"),
        ("%F %f", "%f goes with %S"),
        ("%Y" * 100, "longer than 128 characters"),
    ],
)
def test_a_format_that_there_is_not_is_refused(name: str, expected: str) -> None:
    with pytest.raises(ValueError, match=r"^[^$]*$") as caught:
        parser([name])
    assert expected in str(caught.value)


@pytest.mark.parametrize("name", ["UTC", "+02:00", "-0330", "Europe/Berlin", "GMT"])
def test_zones(name: str) -> None:
    assert datetime.now(zone_named(name)).tzinfo is not None


@pytest.mark.parametrize(
    "name", ["", "Europe/Berln", "../etc/passwd", "/etc/localtime", "America", "+25:00", "\0", "CE ST"]
)
def test_a_zone_that_there_is_not_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"zone: .* neither an IANA time zone nor an offset"):
        zone_named(name)


def test_a_misspelt_zone_gets_a_suggestion() -> None:
    with pytest.raises(ValueError, match="did you mean 'Europe/Berlin'"):
        zone_named("Europe/Berln")


def test_a_rule_is_checked_where_it_is_read() -> None:
    rule = msgspec.toml.decode(
        'field = "time"\nformats = ["httpdate", "%F"]\nzone = "-03:30"\nkeep = false', type=TimestampRule
    )
    assert rule == TimestampRule(field="time", formats=("httpdate", "%F"), zone="-03:30", keep=False)
    assert msgspec.toml.decode('field = ["date", "time"]', type=TimestampRule).field == ("date", "time")
    for wrong in (
        "formats = []",
        'formats = ["isoo"]',
        'zone = "Nowhere"',
        "fields = []",
        'field = "a."',
        'field = ["a", ""]',
        'field = ["a", "a"]',
        "field = []",
    ):
        with pytest.raises(msgspec.ValidationError):
            msgspec.toml.decode(wrong, type=TimestampRule)
