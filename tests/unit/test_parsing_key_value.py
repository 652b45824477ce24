"""Key-value pairs: what logfmt and firewalls write, quoted or not, and nothing of it lost."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logflume.errors import ParseFailure
from logflume.parsing.key_value import MAX_PAIRS, KeyValue, build


def parse(text: str, **options: Any) -> dict[str, Any]:
    return build(KeyValue(**options)).parse(text.encode(), "")


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("a=1 b=2", {"a": "1", "b": "2"}),
        ("""a=1 b="two words" c='x y'""", {"a": "1", "b": "two words", "c": "x y"}),
        (r'a="say \"hi\"" b="x\\" c="l\nm\tn\rü\q"', {"a": 'say "hi"', "b": "x\\", "c": "l\nm\tn\rüq"}),
        ("a= b='' c=\"\"", {"a": "", "b": "", "c": ""}),
        ("  a=1  \t b=2  ", {"a": "1", "b": "2"}),
        ("a=b=c url=/x?y=z", {"a": "b=c", "url": "/x?y=z"}),
        ('a="open b=2', {"a": '"open', "b": "2"}),
        ('a="x"y b=2', {"a": '"x"y', "b": "2"}),
        ("a=it's b='", {"a": "it's", "b": "'"}),
        ("a=1 a=2 a=3", {"a": ["1", "2", "3"]}),
        ("source.ip=::1 größe=ä", {"source.ip": "::1", "größe": "ä"}),
        ("a=1 hello world b=2", {"a": "1", "_": ["hello", "world"], "b": "2"}),
        ("=5 a=1", {"_": "5", "a": "1"}),
        (".a..b.=1", {"a.b": "1"}),
        ("a=two\nlines", {"a": "two\nlines"}),
    ],
)
def test_pairs(text: str, members: dict[str, Any]) -> None:
    assert parse(text) == members


@pytest.mark.parametrize(
    ("text", "options", "members"),
    [
        (
            "a: 1, b: two words , c: 'x, y'",
            {"field_split": ",", "value_split": ":"},
            {"a": "1", "b": "two words", "c": "x, y"},
        ),
        ("a:1;b=2", {"field_split": ";", "value_split": ":="}, {"a": "1", "b": "2"}),
        ("a=1&b=2&&c", {"field_split": "&"}, {"a": "1", "b": "2", "_": "c"}),
        ('a="b" c=1', {"quotes": ""}, {"a": '"b"', "c": "1"}),
        ("a=1 =2 x", {"prefix": "app."}, {"app.a": "1", "app._": ["2", "x"]}),
        ("a^1]b^2", {"field_split": "]", "value_split": "^"}, {"a": "1", "b": "2"}),
    ],
)
def test_separators_quotes_and_prefix_are_configurable(
    text: str, options: dict[str, Any], members: dict[str, Any]
) -> None:
    assert parse(text, **options) == members


NAMES = st.text("abcdefghij_-", min_size=1, max_size=6)


@given(st.dictionaries(NAMES, st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1, max_size=8))
def test_quoted_values_of_any_content_come_back(members: dict[str, str]) -> None:
    quoted = {name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in members.items()}
    assert parse(" ".join(f'{name}="{value}"' for name, value in quoted.items())) == members


@given(st.text(" =\"'\\ab\n", max_size=40))
def test_no_character_but_separators_quotes_and_escapes_is_lost(text: str) -> None:
    try:
        members = parse(text)
    except ParseFailure:
        assert "=" not in text
        return
    values = [one for value in members.values() for one in (value if isinstance(value, list) else [value])]
    kept = "".join([*members, *values])
    assert set(text) - set(" =\"'\\\n") <= set(kept)


@pytest.mark.parametrize("text", ["", "   ", "plain text"])
def test_text_without_pairs_fails(text: str) -> None:
    with pytest.raises(ParseFailure) as failed:
        parse(text)
    assert failed.value.reason == "no_pairs"


def test_too_many_pairs_fail() -> None:
    assert len(parse(" ".join(f"k{number}=1" for number in range(MAX_PAIRS - 1)))) == MAX_PAIRS - 1
    with pytest.raises(ParseFailure) as failed:
        parse(" ".join(f"k{number}=1" for number in range(MAX_PAIRS + 1)))
    assert failed.value.reason == "too_many_pairs"


@pytest.mark.parametrize("options", [{"field_split": "="}, {"quotes": " "}, {"value_split": "\\"}])
def test_characters_with_two_meanings_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="share"):
        KeyValue(**options)
