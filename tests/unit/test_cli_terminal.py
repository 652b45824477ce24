"""What reaches a terminal: other people's bytes made harmless, figures with their units."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cli.terminal import duration, number, plain, print_json, printable, size


@given(st.text(st.characters()))
def test_no_text_keeps_a_character_that_acts_on_a_terminal(text: str) -> None:
    assert printable(text).isprintable()


@given(st.text(st.characters(categories=["L", "N", "P", "S"])))
def test_visible_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("two\r\nlines", r"two\r\nlines"),
        ("c1 \x9b", r"c1 \x9b"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("half \udcff", r"half \udcff"),
        ("ü 雪 \U0001f40d", "ü 雪 \U0001f40d"),
    ],
)
def test_what_would_act_is_shown_as_its_escape(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_log_content_is_neither_markup_nor_emoji() -> None:
    assert plain("[bold]x[/bold] :smile: [/]").plain == "[bold]x[/bold] :smile: [/]"


def test_json_for_scripts_is_one_line_of_ascii_however_long(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"key": "\x1b[31m\x9b ü [bold]x[/bold] :smile: " + "long " * 500}
    print_json(value)
    printed = capsys.readouterr().out
    assert printed.isascii()
    assert printed.count("\n") == 1
    assert json.loads(printed) == value


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (57_527_952, "57.5 MB"), (2_500_000_000_000, "2,500.0 GB")],
)
def test_sizes_are_decimal(count: int, shown: str) -> None:
    assert size(count) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3_599.7, "1 h 00 min"),
        (86_400, "1 d 0 h"),
        (200_000, "2 d 7 h"),
    ],
)
def test_time_spans_have_two_units_and_no_sixty_of_either(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_one_is_singular() -> None:
    assert [number(n, "file") for n in (0, 1, 2, 1234)] == ["0 files", "1 file", "2 files", "1,234 files"]
