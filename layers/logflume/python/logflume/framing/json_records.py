"""JSON records: values of an array inside of documents, or concatenated ones, found by structure (RFC 8259)."""

import re
from collections.abc import Iterator
from typing import NoReturn

import msgspec

from logflume.batch import Slice
from logflume.errors import ObjectDamaged
from logflume.framing.carried import CARRIED_MAX_BYTES, Carried, spliced
from logflume.framing.json_values import GAP, WORD, WORD_MAX_BYTES, ValueScanner, trailing_place
from logflume.limits import EVENT_MAX_BYTES, KIB

NAME_MAX_BYTES = 64 * KIB  # of a member's name on the way to the records, with the white space around it

_IN_ARRAY = '"array"'
_NAME = re.compile(rb'("(?:[^"\\]++|\\.)*+")[ \t\n\r]*+:[ \t\n\r]*+(?=[^ \t\n\r])', re.DOTALL)
_NAME_BEGUN = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:\\?|"[ \t\n\r]*+(?::[ \t\n\r]*+)?)', re.DOTALL)

# Many records at once: `_decode` takes them apart ten times faster than the scanner finds their ends.
_decode = msgspec.json.Decoder(list[msgspec.Raw]).decode
_HEAD = re.compile(rb'\{[ \t\n\r]{0,64}+"[^"\\]{1,64}+"')
_BETWEEN = re.compile(rb"[ \t\n\r]{0,64}+,[ \t\n\r]{0,64}+(?=\{)")
_MIN_REACH_BYTES = 8 * KIB
_MAX_REACH_BYTES = 256 * KIB  # more costs more in page faults than it saves

_OPEN, _CLOSE, _OPEN_ARRAY, _CLOSE_ARRAY = b"{}[]"


class JsonOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="json"):
    """Values of JSON that are not one to a line (those are "lines").

    Without `records`, each value is an event, and of an array each element. With `records`, the path to an array inside
    of each document ("Records", "detail.items"), each of its elements; other members are left out. A document that has
    no such array is an event as a whole, so nothing is lost. Documents follow one another with or without white space
    and commas between them.

    Members of `carry` that stand around the records ("owner", "logGroup"), before them and in the first 8 KiB of their
    document, are put into each record that is an object, as its first members; its own of the same name stand.
    """

    records: str = ""
    carry: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.records and not all(self.records.split(".")):
            raise ValueError(f"records: {self.records!r} is no path: names with dots between them")
        if self.carry and not self.records:
            raise ValueError("carry: it goes with `records`, around which its members stand")


class JsonRecords:
    """Finds records by quotes and brackets, in flat memory; what is inside of them is not checked.

    A `Framing`; its state tells whether `boundary` lies in the array of records, with the members that they carry, or
    between documents. What cannot stand between records is damage (`bad_json`), as is a stream that ends within a
    document (`truncated`): `push` and `finish` raise it after they have yielded what precedes it.
    """

    context = ""

    def __init__(self, options: JsonOptions, at: int = 0, state: str = "", *, max_bytes: int = EVENT_MAX_BYTES) -> None:
        self.boundary = at
        self.state = state
        self._max = max_bytes
        self._path = options.records.split(".") if options.records else []
        # 0: between documents; n: in the object that should hold the path's n-th name; above those: in the array.
        self._array_level = len(self._path) + 1
        self._level = self._array_level if state else 0
        self._carried = Carried(options.carry, state) if options.carry else None
        self._in_array = state or _IN_ARRAY  # the state between records
        self._base = at  # offset of the first byte of the buffer
        self._tail = b""  # a member's name in progress
        self._scanner = ValueScanner()  # of the value in progress, if it is active
        self._event = -1  # offset of the event in progress
        self._kept: list[bytes] = []  # its first bytes, from earlier buffers
        self._length = 0  # its true length in those
        self._found = Slice([], [], {})
        self._found_end, self._found_state = at, state
        self._ready: list[tuple[Slice, int, str]] = []
        self._separator = b""  # what has stood between records: the end of one, the beginning of the next
        self._reach = 64 * KIB
        self._slowly_until = 0

    def push(self, step: bytes) -> Iterator[Slice]:
        """The records that end within this step. Raises `ObjectDamaged` behind them."""
        try:
            self._walk(self._tail + step if self._tail else step)
        except ObjectDamaged:
            yield from self._take_ready()
            raise
        yield from self._take_ready()

    def finish(self) -> Iterator[Slice]:
        """A number that nothing follows. Raises `ObjectDamaged` where a document has no end."""
        if self._scanner.active and self._scanner.in_word and not self._level:
            self._scanner.active = False
            self._complete(b"", 0)
        yield from self._take_ready()
        end = self._base + len(self._tail)
        if self._level or self._scanner.active or self._tail:
            raise ObjectDamaged("truncated", "the stream ends within a JSON document", raw_offset=end)
        self.boundary = end

    def _walk(self, buffer: bytes) -> None:
        place, end = 0, len(buffer)
        while 0 <= place < end:
            reached, place = place, self._advance(buffer, place)
        if place < 0:
            end = _behind_gap(buffer, reached)
        self._tail = buffer[end:]
        if self._event >= 0:
            self._keep(buffer[max(0, self._event - self._base) : end])
        self._base += end

    def _advance(self, buffer: bytes, place: int) -> int:
        """One token or value on, or to the buffer's end within a value; -1: needs more than the buffer has."""
        if self._scanner.active:
            end = self._scanner.end(buffer, place)
            self._ended(buffer, end)
            return end
        place = _behind_gap(buffer, place)
        if place == len(buffer):
            return place
        first = buffer[place]
        if 0 < self._level < self._array_level:
            return self._member(buffer, place)
        if self._level:
            if first == _CLOSE_ARRAY:
                return self._leave(buffer, place + 1)
            if first == _OPEN and (end := self._many(buffer, place)):
                return end
        elif first == (_OPEN if self._path else _OPEN_ARRAY):
            self._event = self._base + place if self._path else -1
            self._level = 1
            if self._carried:
                self._carried.clear()
            return place + 1
        self._event = self._base + place
        return self._begin(buffer, place)

    def _begin(self, buffer: bytes, place: int) -> int:
        begun = self._scanner.begin(buffer, place)
        if begun < 0:
            self._damaged(place, f"{chr(buffer[place])!r} where a value should begin")
        self._ended(buffer, begun)
        return begun

    def _ended(self, buffer: bytes, end: int) -> None:
        if self._scanner.active:
            return
        if self._level in (0, self._array_level):
            self._complete(buffer, end)
        elif self._carried and self._event >= 0 and self._carried.wants(self._base + end - self._event):
            begin = max(0, self._event - self._base)
            self._carried.take(b"".join((*self._kept, buffer[begin:end])))

    def _member(self, buffer: bytes, place: int) -> int:
        """In an object on the path: a member's name and how its value begins, or the object's end."""
        if buffer[place] == _CLOSE:
            return self._leave(buffer, place + 1)
        name = _NAME.match(buffer, place)
        end = name.end() if name else len(buffer)
        if not name and not _NAME_BEGUN.fullmatch(buffer, place):
            self._damaged(place, "no member where one should be")
        if end - place > NAME_MAX_BYTES:
            self._damaged(place, f"a member's name over {NAME_MAX_BYTES} bytes")
        if not name:
            return -1
        text = _text(name[1])
        if text == self._path[self._level - 1]:
            last = self._level == len(self._path)
            if buffer[end] == (_OPEN_ARRAY if last else _OPEN):
                self._level += 1
                if last:
                    self._enter_array()
                return end + 1
        if self._carried:
            self._carried.begin(text, self._base + end - self._event)
        return self._begin(buffer, end)

    def _enter_array(self) -> None:
        if self._carried and self._event >= 0:
            self._in_array = self._carried.state
        self._drop_event()

    def _leave(self, buffer: bytes, end: int) -> int:
        self._level -= 1
        if not self._level and self._event >= 0:
            self._complete(buffer, end)
        return end

    def _many(self, buffer: bytes, place: int) -> int:
        """As many records as are whole within reach; returns the end of the last, 0 if there is no telling fast.

        Where one may end and the next begin is guessed from how others did. JSON that is valid up to there proves it;
        if it is not, so many bytes are walked slowly before the next guess, and the time stays linear.
        """
        if not self._separator or self._base + place < self._slowly_until:
            return 0
        limit = min(place + self._reach, len(buffer))
        self._reach = min(self._reach * 2, _MAX_REACH_BYTES)
        end = buffer.rfind(self._separator, place, limit) + 1
        events, array_end = _decoded(buffer[place:end]) if end else ([], 0)
        if not events and array_end:
            events, _ = _decoded(buffer[place : place + array_end])
            self._reach = max(_MIN_REACH_BYTES, 2 * array_end)
        if not events:
            self._slowly_until = self._base + limit
            return 0
        starts, find = [], buffer.find
        for event in events:
            place = find(event[:1], place)  # only white space and one comma precede it
            starts.append(self._base + place)
            place += len(event)
        self._emit(starts, events, [len(event) for event in events], self._base + place)
        return place

    def _learn(self, buffer: bytes, start: int, end: int) -> None:
        """See what stands between this record and the next."""
        head = _HEAD.match(buffer, start, end)
        between = _BETWEEN.match(buffer, end)
        if head and between:
            self._separator = b"}" + between[0] + head[0]

    def _complete(self, buffer: bytes, end: int) -> None:
        """The event in progress ends here."""
        start = self._event - self._base
        event, length = buffer[max(0, start) : end], end - start
        if start < 0:
            self._keep(event)
            event = b"".join(self._kept)
        elif self._level:
            self._learn(buffer, start, end)
        if event[0] not in b'"{[' and not WORD.fullmatch(event):
            self._damaged(start, f"no JSON value: {event[:20]!r}")
        self._emit([self._event], [event], [length], self._base + end)
        self._drop_event()

    def _keep(self, piece: bytes) -> None:
        room = max(self._max, WORD_MAX_BYTES, CARRIED_MAX_BYTES if self._carried else 0) - self._length
        self._length += len(piece)
        if room > 0:
            self._kept.append(piece[:room])

    def _drop_event(self) -> None:
        self._event, self._kept, self._length = -1, [], 0

    def _emit(self, starts: list[int], events: list[bytes], lengths: list[int], end: int) -> None:
        """Events that one state holds for go into one slice; `end` is the boundary behind them."""
        state = self._in_array if self._level == self._array_level else ""
        if state != self._found_state:
            self._flush()
        held = len(self._found.events)
        for i, length in enumerate(lengths):
            if length > self._max:
                events[i] = events[i][: self._max]
                self._found.cut[held + i] = length
        self._found.offsets.extend(starts)
        self._found.events.extend(events)
        self._found_end, self._found_state = end, state

    def _flush(self) -> None:
        if self._found.events:
            self._ready.append((self._found, self._found_end, self._found_state))
            self._found = Slice([], [], {})

    def _take_ready(self) -> Iterator[Slice]:
        self._flush()
        ready, self._ready = self._ready, []
        for found, end, self.state in ready:
            carries = self._carried and self.state
            pieces = spliced(found, end, self.state, self._max) if carries else [(found, end)]
            for piece, boundary in pieces:
                self.boundary = boundary
                yield piece

    def _damaged(self, place: int, detail: str) -> NoReturn:
        raise ObjectDamaged("bad_json", detail, raw_offset=self._base + place)


def _decoded(records: bytes) -> tuple[list[bytes], int]:
    """The values of an array without its brackets; none where they are not JSON.

    If the array ends before they do: none, and the offset of the bracket that ends it.
    """
    array = b"[%b]" % records
    try:
        return [*map(bytes, _decode(array))], 0
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        following = trailing_place(error)
        return [], array.rfind(b"]", 0, following) - 1 if following else 0


def _behind_gap(buffer: bytes, place: int) -> int:
    gap = GAP.match(buffer, place)
    return gap.end() if gap else place


def _text(name: bytes) -> str:
    """A member's name as it is meant."""
    try:
        return msgspec.json.decode(name, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
