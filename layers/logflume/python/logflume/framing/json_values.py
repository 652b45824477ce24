"""JSON values: where one ends, told by quotes and brackets alone, however deep and wherever the steps are cut."""

import re

import msgspec

GAP = re.compile(rb"[ \t\n\r,]*+")  # what may stand between values
WORD = re.compile(rb"[-+.eE0-9]++|true|false|null|NaN|-?Infinity")
WORD_MAX_BYTES = 16  # longer ones are numbers

_TO_BRACKET = re.compile(rb'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_IN_WORD = re.compile(rb'[^ \t\n\r,:"{}\[\]]*+')

_QUOTE, _OPEN = b'"{'

# Where valid JSON is followed by anything, msgspec tells where: much faster than counting brackets.
_decode = msgspec.json.Decoder(msgspec.Raw).decode
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")


class ValueScanner:
    """Finds the end of one value at a time; what it remembers between steps does not grow.

    Brackets are counted, not matched: `{"a":[1}]` ends with its last bracket. Nothing inside is checked.
    """

    def __init__(self) -> None:
        self.active = False
        self.in_word = False  # a number, true, false, null or what is none of them
        self._in_string = False
        self._escaped = False  # the step ended between a backslash and what it escapes
        self._depth = 0

    def begin(self, buffer: bytes, place: int) -> int:
        """A value begins here; returns where `end` goes on, -1 if none can begin so.

        Where the value's end was quick to find it is returned, and the scanner is not `active`.
        """
        first = buffer[place]
        if first in b"}]:,":
            return -1
        self.active = True
        self._in_string = first == _QUOTE
        self._depth = int(first in b"{[")
        self.in_word = not (self._in_string or self._depth)
        if self._depth and (end := _valid_end(buffer, place)):
            self.active = False
            return end
        return place if self.in_word else place + 1

    def end(self, buffer: bytes, place: int) -> int:
        """The offset behind the value, or the buffer's length while it is still `active`."""
        if self.in_word:
            place = _end(_IN_WORD, buffer, place)
            self.active = place == len(buffer)
            return place
        if self._in_string:
            place = self._string_end(buffer, place)
            if not self._in_string and not self._depth:
                self.active = False
                return place
        while place < len(buffer):
            place = _end(_TO_BRACKET, buffer, place)
            if place == len(buffer):
                break
            bracket = buffer[place]
            place += 1
            if bracket == _QUOTE:
                place = self._string_end(buffer, place)
            elif bracket in b"{[":
                self._depth += 1
            else:
                self._depth -= 1
                if not self._depth:
                    self.active = False
                    break
        return place

    def _string_end(self, buffer: bytes, place: int) -> int:
        if self._escaped and place < len(buffer):
            self._escaped = False
            place += 1
        place = _end(_IN_STRING, buffer, place)
        left = len(buffer) - place
        self._in_string = not left or buffer[place] != _QUOTE
        if not self._in_string:
            return place + 1
        self._escaped = self._escaped or left > 0
        return len(buffer)


def _end(pattern: re.Pattern[bytes], buffer: bytes, place: int) -> int:
    match = pattern.match(buffer, place)
    return match.end() if match else place


def trailing_place(error: Exception) -> int:
    """Where, by this error of msgspec's, something follows a valid value; 0 if it is another error."""
    trailing = _TRAILING.search(str(error))
    return int(trailing[1]) - 1 if trailing else 0


def _valid_end(buffer: bytes, place: int) -> int:
    """The end of an object or array that is valid; 0 if it is not, or not whole."""
    following = len(buffer)
    try:
        with memoryview(buffer) as view, view[place:] as rest:
            _decode(rest)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        following = trailing_place(error)
        if not following:
            return 0
        following += place
    return buffer.rfind(b"}" if buffer[place] == _OPEN else b"]", place, following) + 1
