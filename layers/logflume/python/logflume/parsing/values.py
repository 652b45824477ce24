"""Values: text taken out of an event to the name and the typed value that its document's member has.

Nothing is lost on the way: text that is no value of the asked type stays text, and OpenSearch's mapping decides.
"""

import math
import re
from collections.abc import Callable
from functools import lru_cache

NAME_MAX_BYTES = 256  # the index templates limit names to as many characters (templates.py)
NAMELESS = "_"

_LONG = 1 << 63  # OpenSearch's `long` is signed, 64 bits
_SURELY_LONG = 19  # digits: fewer always fit
_TRUE = frozenset(("true", "t", "yes", "y", "on", "1"))
_FALSE = frozenset(("false", "f", "no", "n", "off", "0"))
_CONTROL = re.compile(r"[\x00-\x20\x7f]+")

type Value = str | int | float | bool


def to_long(text: str) -> Value:
    """`"42"` to 42, `"4.2"` to 4."""
    if text.isdecimal() and len(text) < _SURELY_LONG:
        return int(text)
    try:
        value = int(text)
    except ValueError:
        number = to_double(text)
        if not isinstance(number, float):
            return text
        value = int(number)
    return text if "_" in text or not -_LONG <= value < _LONG else value


def to_double(text: str) -> Value:
    """`"4.2"` to 4.2; `nan` and infinities, which JSON has not, stay text."""
    try:
        value = float(text) if "_" not in text else math.nan
    except ValueError:
        return text
    return value if math.isfinite(value) else text


def to_boolean(text: str) -> Value:
    """true, t, yes, y, on, 1 and their opposites, in any case."""
    word = text.lower()
    return True if word in _TRUE else False if word in _FALSE else text


def to_string(text: str) -> Value:
    """As it is."""
    return text


CONVERSIONS: dict[str, Callable[[str], Value]] = {
    "long": to_long,
    "double": to_double,
    "boolean": to_boolean,
    "string": to_string,
}


@lru_cache(4096)
def member_name(text: str) -> str:
    """A name that OpenSearch takes: no control characters or blanks around, no empty parts between dots, not too long.

    What has no name left is `_`. Dots stay: `source.ip` is a member of `source`.
    """
    name = ".".join(filter(None, map(str.strip, _CONTROL.sub(" ", text).split("."))))
    if len(name) * 4 > NAME_MAX_BYTES:
        name = name.encode("utf-8", "replace")[:NAME_MAX_BYTES].decode("utf-8", "ignore").rstrip(" .")
    return name or NAMELESS
