r"""Conditions: a small expression language over a document's members, compiled to one function.

    http.status >= 500 and not (agent matches "^curl/\d" or host in ["a", "b"])

    FIELD == LITERAL    also != < <= > >=; the last four between numbers
    FIELD in [LITERAL, …]
    FIELD matches "REGEX"   found anywhere in the text, of which the first 8,192 characters are searched
    exists FIELD            the member is there and not null
    not, and, or, ( )       in this order of binding

A field is a dotted name of letters, digits, and @ _ - $ (first no digit, no -); any other name, and one that is a word
of the language, stands in backticks. Literals are numbers, true, false, null, and strings in either quotes, where a
backslash stands before a quote, a backslash, n, r or t; before anything else it means itself, as regexes want it.

A comparison of a member that is missing, or of another type than the literal, is false, `!=` as well: "500" is not
equal to 500 and not unequal to it. `not status == 200` is true of a document without status. null equals null only,
and is unequal to whatever else is there. A regex that runs too long is stopped (`interruption.Overrun`), and the
processor has failed.
"""

import operator
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from logflume import paths
from logflume.parsing.interruption import guarded, in_ticks
from logflume.paths import MISSING, Document

type Condition = Callable[[Document], bool]

MAX_CHARACTERS = 4096
MAX_NESTING = 32
MAX_SUBJECT_CHARACTERS = 8192  # what a regex searches
REGEX_TICKS = in_ticks(200)  # of milliseconds: a regex that takes longer raises `Overrun`

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<quoted>`[^`]+`)
    |(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w@$]))
    |(?P<word>[^\W\d][\w@$.-]*|[@$][\w@$.-]*)
    |(?P<sign>==|!=|<=|>=|[<>()\[\],])
    |(?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([\\\"'nrt])")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
_CONSTANTS = {"true": True, "false": False, "null": None}
_KEYWORDS = {"and", "or", "not", "in", "matches", "exists", *_CONSTANTS}
_MEANT = {"=": "==", "&": "and", "|": "or", "!": "not", "~": "matches"}
_ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class _Token(NamedTuple):
    kind: str
    text: str
    position: int  # in characters, from 1


def condition(text: str) -> Condition:
    """The condition as a function of a document. Raises `ValueError` naming the position and what was expected."""
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"the condition is longer than {MAX_CHARACTERS} characters")
    parser = _Parser(_tokens(text))
    found = parser.any_of(0)
    parser.expect("and, or, or the end", "end")
    return found


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    end = 0
    while not tokens or tokens[-1].kind != "end":
        found = _TOKEN.match(text, end)
        if not found:
            rest = text[end:].lstrip()
            what = "a string that does not end" if rest[0] in "\"'`" else f"{rest[:10]!r} is not understood"
            meant = next((f" (did you mean {word}?)" for sign, word in _MEANT.items() if rest.startswith(sign)), "")
            raise ValueError(f"condition, character {len(text) - len(rest) + 1}: {what}{meant}")
        kind = found.lastgroup or "end"
        tokens.append(_Token(kind, found[kind], found.start(kind) + 1))
        end = found.end()
    return tokens


class _Parser:
    """Recursive descent, one method a rule of the grammar; `depth` counts parentheses and nots."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = iter(tokens)
        self._next = next(self._tokens)

    def any_of(self, depth: int) -> Condition:
        tests = [self._all_of(depth)]
        while self._takes("or"):
            tests.append(self._all_of(depth))
        return tests[0] if len(tests) == 1 else lambda document: _any_true(tests, document)

    def expect(self, what: str, *kinds: str, text: str = "") -> str:
        """Take the next token, which has to be of these kinds."""
        token = self._next
        if token.kind not in kinds or (text and token.text != text):
            found = token.text[:40] or "the end"
            raise ValueError(f"condition, character {token.position}: expected {what}, found {found}")
        self._next = next(self._tokens, token)
        return token.text

    def _all_of(self, depth: int) -> Condition:
        tests = [self._negated(depth)]
        while self._takes("and"):
            tests.append(self._negated(depth))
        return tests[0] if len(tests) == 1 else lambda document: _all_true(tests, document)

    def _negated(self, depth: int) -> Condition:
        if depth > MAX_NESTING:
            raise ValueError(f"condition, character {self._next.position}: nested deeper than {MAX_NESTING}")
        if self._takes("not"):
            test = self._negated(depth + 1)
            return lambda document: not test(document)
        if self._takes("("):
            test = self.any_of(depth + 1)
            self.expect(")", "sign", text=")")
            return test
        if self._takes("exists"):
            return _exists(self._field())
        return self._comparison(self._field())

    def _comparison(self, path: str) -> Condition:
        position = self._next.position
        if self._takes("in"):
            return _is_in(path, self._list())
        if self._takes("matches"):
            position = self._next.position
            try:
                return _matches(path, re.compile(_unquoted(self.expect("a regex in quotes", "string"))))
            except re.PatternError as error:
                raise ValueError(f"condition, character {position}: the regex is wrong: {error}") from error
        sign = self.expect("==, !=, <, <=, >, >=, in or matches", "sign")
        if sign in ("==", "!="):
            return _equals(path, self._literal()) if sign == "==" else _differs(path, self._literal())
        if sign not in _ORDER:
            raise ValueError(f"condition, character {position}: expected a comparison, found {sign}")
        return _ordered(path, _ORDER[sign], _number(self.expect("a number", "number")))

    def _takes(self, text: str) -> bool:
        """Whether the next token is this keyword or sign; if so, it is taken."""
        token = self._next
        if token.text != text or token.kind not in ("word", "sign"):
            return False
        self._next = next(self._tokens, token)
        return True

    def _field(self) -> str:
        position = self._next.position
        text = self.expect("a field", "word", "quoted")
        if text in _KEYWORDS:
            raise ValueError(f"condition, character {position}: expected a field, found the word {text}")
        try:
            return paths.checked(text.strip("`"))
        except ValueError as error:
            raise ValueError(f"condition, character {position}: {error}") from error

    def _list(self) -> list[Any]:
        self.expect("[", "sign", text="[")
        literals = [self._literal()]
        while self._takes(","):
            literals.append(self._literal())
        self.expect(", or ]", "sign", text="]")
        return literals

    def _literal(self) -> Any:
        token, what = self._next, "a string, a number, true, false or null"
        if token.kind == "word" and token.text not in _CONSTANTS:
            raise ValueError(f"condition, character {token.position}: expected {what}, found {token.text[:40]}")
        text = self.expect(what, "string", "number", "word")
        if token.kind == "word":
            return _CONSTANTS[text]
        return _unquoted(text) if token.kind == "string" else _number(text)


def _unquoted(text: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), text[1:-1])


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdecimal() else float(text)


def _all_true(tests: list[Condition], document: Document) -> bool:
    """Whether every one is true; ends at the first that is not."""
    for test in tests:  # noqa: SIM110 - a third faster than all() with a generator
        if not test(document):
            return False
    return True


def _any_true(tests: list[Condition], document: Document) -> bool:
    """Whether one is true; ends there."""
    for test in tests:  # noqa: SIM110
        if test(document):
            return True
    return False


def _kind(value: Any) -> type | None:
    """What may be compared with what: ints with floats, and true with no number."""
    return float if type(value) is int else type(value)


def _exists(path: str) -> Condition:
    get = paths.getter(path)
    return lambda document: (value := get(document)) is not MISSING and value is not None


def _equals(path: str, literal: Any) -> Condition:
    get = paths.getter(path)
    if isinstance(literal, str):
        return lambda document: bool(get(document) == literal)
    if literal is None or isinstance(literal, bool):
        return lambda document: get(document) is literal
    return lambda document: (value := get(document)) == literal and value.__class__ is not bool


def _differs(path: str, literal: Any) -> Condition:
    get = paths.getter(path)
    if literal is None:
        return _exists(path)
    kind = _kind(literal)
    return lambda document: _kind(value := get(document)) is kind and value != literal


def _ordered(path: str, compare: Callable[[Any, Any], bool], literal: float) -> Condition:
    get = paths.getter(path)
    return lambda document: _kind(value := get(document)) is float and compare(value, literal)


def _is_in(path: str, literals: list[Any]) -> Condition:
    get = paths.getter(path)
    allowed = {(_kind(literal), literal) for literal in literals}

    def test(document: Document) -> bool:
        value = get(document)
        return not isinstance(value, dict | list) and (_kind(value), value) in allowed

    return test


def _matches(path: str, pattern: re.Pattern[str]) -> Condition:
    get, search = paths.getter(path), pattern.search

    def test(document: Document) -> bool:
        value = get(document)
        if not isinstance(value, str):
            return False
        return guarded(search, value[:MAX_SUBJECT_CHARACTERS], REGEX_TICKS) is not None

    return test
