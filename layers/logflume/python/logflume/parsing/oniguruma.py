r"""Oniguruma to `re`: the regular expressions that grok patterns are written in, as Python reads them.

Grok's expressions are Ruby's (Logstash, OpenSearch and Elasticsearch all match them with Joni, a port of Oniguruma).
What differs, https://github.com/kkos/oniguruma/blob/master/doc/RE against Python's `re`:

    (?<name>…)          a group; here numbered, and `named` is told of its name
    (…)                 groups nothing where groups have names
    %{NAME}             grok's reference; here `reference` says what stands for it
    [[:alnum:]] \p{L}   classes; every character beyond ASCII counts as a letter
    [a[bc]]             a class within a class: their union
    \h \H               a hexadecimal digit
    \A \z \Z            beginning, end, end or before the last line feed; ^ and $ are those of lines (`FLAGS`)
    (?m) (?i) in mid-pattern   hold up to the end of the group; (?m) is Python's (?s)
    a{2}+               a repeated repeat (in Python: possessive); a++ and (?>…) mean the same in both

Recursion (`\g<name>`), `\K`, `(?x)`, numbered back-references and, in classes, `&&` and negations are refused.
"""

import re
from collections.abc import Callable

FLAGS = re.ASCII | re.MULTILINE

_BEYOND_ASCII = "\u0080-\U0010ffff"
_POSIX = {
    "alnum": "0-9A-Za-z" + _BEYOND_ASCII,
    "alpha": "A-Za-z" + _BEYOND_ASCII,
    "ascii": r"\x00-\x7f",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e" + _BEYOND_ASCII,
    "lower": "a-z",
    "print": r"\x20-\x7e" + _BEYOND_ASCII,
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "word": r"\w" + _BEYOND_ASCII,
    "xdigit": "0-9A-Fa-f",
    # Unicode's own short names, by \p{…}
    "l": "A-Za-z" + _BEYOND_ASCII,
    "lu": "A-Z",
    "ll": "a-z",
    "n": "0-9",
    "nd": "0-9",
    "p": r"!-/:-@\[-`{-~",
}
_ESCAPES = {
    "A": r"\A",
    "z": r"\Z",
    "Z": r"(?=\n?\Z)",
    "h": "[0-9A-Fa-f]",
    "H": "[^0-9A-Fa-f]",
    "R": r"(?>\r\n|[\n\v\f\r])",
    "e": r"\x1b",
}
_REFUSED = {"g": "calling a group", "K": r"\K", "G": r"\G", "X": r"\X"}
_REFUSED |= dict.fromkeys("123456789", "a numbered back-reference")
_TOKEN = re.compile(
    r"""
      %\{ (?P<reference> [^}]* ) \}
    | (?P<quantifier> [*+?] | \{ (?=[\d,]*\d) \d*,?\d* \} )
    | \\ (?: [pP]\{ (?P<property> \^?\w+ ) \} | x\{ (?P<code> [0-9A-Fa-f]{1,6} ) \} | k< (?P<back> [^>]+ ) >
           | (?P<escape> x[0-9A-Fa-f]{1,2} | u[0-9A-Fa-f]{4} | . ) )
    | \(\? (?: < (?P<name> [^=!>][^>]* ) > | (?P<comment> \#[^)]*\) ) | (?P<flags> [a-z-]+ (?=[:)]) ) | (?P<special> ) )
    | (?P<open> \( ) | (?P<close> \) ) | (?P<class> \[ ) | (?P<or> \| ) | (?P<literal> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_CLASS_TOKEN = re.compile(
    r"""
      \[: (?P<posix> \w+ ) :\]
    | \\ (?: p\{ (?P<property> \w+ ) \} | (?P<escape> x[0-9A-Fa-f]{1,2} | u[0-9A-Fa-f]{4} | . ) )
    | (?P<refused> && | \[:?\^ ) | (?P<open> \[ ) | (?P<close> \] ) | (?P<literal> . )
    """,
    re.VERBOSE | re.DOTALL,
)


def translate(pattern: str, reference: Callable[[str], str], group: Callable[[str], str]) -> str:
    """The expression as `re.compile` takes it, with `FLAGS`.

    `reference` says what stands for a `%{…}`; `group` makes up the name under which Python knows the group
    `(?<name>…)`. Raises `ValueError`, as these two may, where the expression cannot be said in Python.
    """
    return _Translation(pattern, reference, group).text


class _Translation:
    def __init__(self, pattern: str, reference: Callable[[str], str], group: Callable[[str], str]) -> None:
        self._pattern = pattern
        self._reference = reference
        self._group = group
        self._out: list[str] = []
        self._atom: int | None = None  # where in `_out` that begins which a quantifier would repeat
        self._repeated = ""  # the quantifier that it has already
        self._outer: list[tuple[int, int]] = []  # of each open group: its beginning, and the outer one's flag groups
        self._flag_groups = 0  # opened by a flag in mid-pattern, to be closed with the group they are in
        self._groups: dict[str, str] = {}
        position = 0
        while found := _TOKEN.match(pattern, position):
            position = self._step(found)
        if self._outer:
            raise ValueError("a group is not closed")
        self.text = "".join(self._out) + ")" * self._flag_groups

    def _step(self, found: re.Match[str]) -> int:
        kind = found.lastgroup or ""
        text = found[kind]
        match kind:
            case "reference":
                self._append(self._reference(text))
            case "quantifier":
                self._quantifier(text)
            case "name":
                self._groups[text] = self._group(text)
                self._enter(f"(?P<{self._groups[text]}>")
            case "back":
                self._append(self._back(text))
            case "flags":
                return self._flags(text, found.end())
            case "special":
                return self._special(found.end())
            case "open":
                self._enter("(?:")
            case "close":
                self._leave()
            case "class":
                members, end = _class(self._pattern, found.end())
                self._append(members)
                return end
            case "or":
                self._out.append("|")
                self._atom = None
            case "literal":
                self._append(f"\\{text}" if text in "{}" else text)
            case "comment":
                pass
            case _:
                self._append(_escaped(kind, text))
        return found.end()

    def _append(self, atom: str) -> None:
        self._atom, self._repeated = len(self._out), ""
        self._out.append(atom)

    def _quantifier(self, quantifier: str) -> None:
        if self._atom is None:
            raise ValueError(f"there is nothing for {quantifier} to repeat")
        possessive = quantifier == "+" and self._repeated in ("*", "+", "?")
        lazy = quantifier == "?" and self._repeated and self._repeated != "done"
        if possessive or lazy:
            self._out.append(quantifier)
            self._repeated = "done"
            return
        if self._repeated:
            self._out.insert(self._atom, "(?:")
            self._out.append(")")
        self._out.append(quantifier)
        self._repeated = quantifier

    def _enter(self, opening: str) -> None:
        self._outer.append((len(self._out), self._flag_groups))
        self._flag_groups, self._atom = 0, None
        self._out.append(opening)

    def _leave(self) -> None:
        if not self._outer:
            raise ValueError("there is a ) without its (")
        self._out.append(")" * (self._flag_groups + 1))
        self._atom, self._flag_groups = self._outer.pop()
        self._repeated = ""

    def _flags(self, flags: str, end: int) -> int:
        if not re.fullmatch("[im]*(-[im]+)?", flags):
            raise ValueError(f"(?{flags}) is not supported; (?i) and (?m) are")
        opening = f"(?{flags.replace('m', 's')}:"
        if self._pattern[end] == ":":
            self._enter(opening)
        else:
            self._out.append(opening)
            self._flag_groups += 1
            self._atom = None
        return end + 1

    def _special(self, end: int) -> int:
        for kind in (":", "=", "!", ">", "<=", "<!"):
            if self._pattern.startswith(kind, end):
                self._enter(f"(?{kind}")
                return end + len(kind)
        raise ValueError(f"(?{self._pattern[end : end + 1]}…) is not supported")

    def _back(self, name: str) -> str:
        if name not in self._groups:
            raise ValueError(f"\\k<{name}>: there is no such group before it")
        return f"(?P={self._groups[name]})"


def _escaped(kind: str, text: str) -> str:
    """What stands for an escape sequence outside of classes."""
    if kind == "code":
        return re.escape(chr(int(text, 16)))
    if kind == "property":
        return f"[{'^' * text.startswith('^')}{_members(text.removeprefix('^'))}]"
    if text in _REFUSED:
        raise ValueError(f"{_REFUSED[text]} is not supported")
    return _ESCAPES.get(text) or f"\\{text}"


def _class(pattern: str, position: int) -> tuple[str, int]:
    """The class whose `[` ends at `position`, flat, and where it ends."""
    negated = pattern.startswith("^", position)
    position += negated
    members: list[str] = []
    depth, first = 1, True
    while depth:
        found = _CLASS_TOKEN.match(pattern, position)
        if not found:
            raise ValueError("a class is not closed")
        position, kind = found.end(), found.lastgroup or ""
        if kind == "close" and not first:
            depth -= 1
        elif kind == "open":
            depth += 1
        else:
            members.append(_class_member(kind, found[kind]))
        first = kind == "open"
    return f"[{'^' * negated}{''.join(members)}]", position


def _class_member(kind: str, text: str) -> str:
    if kind in ("posix", "property"):
        return _members(text)
    if kind == "refused":
        raise ValueError(f"{text} in a class is not supported")
    if kind == "escape":
        return {"h": "0-9A-Fa-f", "e": r"\x1b"}.get(text) or f"\\{text}"
    return f"\\{text}" if text in "[]&|~" else text  # Python warns of what may become a set operation


def _members(name: str) -> str:
    try:
        return _POSIX[name.lower()]
    except KeyError:
        raise ValueError(f"there is no class {name!r}; known: {', '.join(_POSIX)}") from None
