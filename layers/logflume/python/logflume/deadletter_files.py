"""Dead-letter files: what lies in each of the three kinds, item by item, and how to keep a part of one.

    events/<date>/…     rejected events, a `Letter` a line              (deadletters.py)
    records/<date>/…    stream records that could not be read           (deadletters.py)
    aws/lambda/…        what Lambda gave up itself: an invocation record with the event in `payload`, a JSON string
                        (Lambda developer guide, "Retain discarded batch records for a Kinesis Data Streams event
                        source")

Other people's bytes lie in all of them. What cannot be read is an item or an error with its reason, never a crash, and
`remainder` keeps any part of a file byte for byte.
"""

import base64
import binascii
import gzip
import io
import time
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import msgspec
from isal import isal_zlib

from logflume import batch
from logflume.batch import Header
from logflume.deadletters import EVENTS_PREFIX, RECORDS_PREFIX, Letter
from logflume.documents import event_id
from logflume.errors import BatchDamaged, LogflumeError
from logflume.limits import EVENT_MAX_BYTES, MIB, OFFSET_DIGITS

LAMBDA_PREFIX = "aws/lambda/"
PREFIXES = (EVENTS_PREFIX, RECORDS_PREFIX, LAMBDA_PREFIX)

# The largest that are written: a request's events, or a Lambda payload of 6 MB in base64 (AWS quota) as JSON in JSON.
MAX_FILE_BYTES = 64 * MIB
# An event of 960 KiB in which every byte is escaped (`\u0000`), and its header.
MAX_LINE_BYTES = 8 * MIB


class DeadLetterDamaged(LogflumeError):
    """A dead-letter file cannot be read, or not to its end; it must be kept as it is."""

    reason = "damaged_file"


class Stored(NamedTuple):
    """A dead-letter file in the bucket's listing; `modified` by S3's clock (Unix seconds)."""

    key: str
    size: int
    modified: float

    @property
    def day(self) -> str:
        """The date on which it was written (UTC)."""
        dated = not self.key.startswith(LAMBDA_PREFIX) and self.key.count("/") > 1
        return self.key.split("/")[1] if dated else time.strftime("%Y-%m-%d", time.gmtime(self.modified))


class Event(NamedTuple):
    """A rejected event: its letter and its bytes."""

    raw: bytes
    letter: Letter
    body: bytes

    @property
    def source(self) -> str:
        """The source that the event belongs to."""
        return self.letter.header.source

    @property
    def reason(self) -> str:
        """Why it was dead-lettered, as a short name."""
        return self.letter.error

    @property
    def obstacle(self) -> str:
        """Why it cannot be sent from here; empty where it can."""
        header, length = self.letter.header, self.letter.length
        if header.oversize != "reference" or length <= len(self.body):
            return ""
        return (
            f"only its first {len(self.body)} of {length} bytes are kept here; the rest is in the object, from byte "
            f'{self.letter.offset} decompressed. To index it cut off, set oversize = "truncate" for the source '
            f"{header.source!r} and drop the file again under another name"
        )


class Batch(NamedTuple):
    """A whole stream record that can be read by now."""

    raw: bytes
    reason: str
    data: bytes
    header: Header
    offsets: list[int]
    obstacle: str = ""

    @property
    def source(self) -> str:
        """The source that its events belong to."""
        return self.header.source


class Unreadable(NamedTuple):
    """Something that cannot be sent, nor attributed to a source: a broken line, a record that is no batch."""

    raw: bytes
    reason: str
    obstacle: str
    source: str = "?"


type Item = Event | Batch | Unreadable


class Remainder(Protocol):
    """Makes a file like the one it comes from, of some of its items."""

    def add(self, item: Item) -> None:
        """Keep this one as it was."""
        ...

    def finish(self) -> bytes:
        """The new file's bytes."""
        ...


class DeadLetterFile:
    """One file with its bytes. Iterating gives its items and may end with `DeadLetterDamaged`."""

    def __init__(self, stored: Stored, data: bytes, reason: str = "") -> None:
        self.stored = stored
        self._data = data
        self._reason = reason

    def __iter__(self) -> Iterator[Item]:
        if self.stored.size > MAX_FILE_BYTES:
            raise DeadLetterDamaged(f"{self.stored.size} bytes, over {MAX_FILE_BYTES}: not one of ours")
        if self.stored.key.startswith(EVENTS_PREFIX):
            return map(_event, _lines(self._data))
        if self.stored.key.startswith(RECORDS_PREFIX):
            return iter([_batch(self._data, self._data, self._reason or "unreadable")])
        return map(_invoked, _invocation(self._data)[1])

    def remainder(self) -> Remainder:
        """Collects the items that stay; not for a damaged file."""
        return _Invocation(self._data) if self.stored.key.startswith(LAMBDA_PREFIX) else _Lines()


_letter = msgspec.json.Decoder(Letter)


def _lines(data: bytes) -> Iterator[bytes]:
    """The lines of a gzip file, without their ends."""
    lines = gzip.GzipFile(fileobj=io.BytesIO(data))
    try:
        if not data:
            raise EOFError("the file is empty")
        while line := lines.readline(MAX_LINE_BYTES):
            if not line.endswith(b"\n"):
                raise EOFError(f"a line of over {MAX_LINE_BYTES} bytes, or one without an end")
            yield line[:-1]
    except (OSError, EOFError, zlib.error) as error:
        raise DeadLetterDamaged(str(error)) from error


def _event(line: bytes) -> Item:
    try:
        letter = _letter.decode(line)
        body = base64.b64decode(letter.event_base64, validate=True) or letter.event.encode()
    except (msgspec.DecodeError, UnicodeError, binascii.Error, RecursionError) as error:
        return Unreadable(line, "damaged_letter", f"the line is no dead letter: {error}")
    if letter.header.v > batch.VERSION:
        return Unreadable(line, "newer_version", "written by a newer Logflume: use its command line")
    if not 0 <= letter.offset < 10**OFFSET_DIGITS or letter.id != event_id(letter.header.lineage, letter.offset):
        return Unreadable(line, "damaged_letter", "its id is not the one of its object and offset")
    if len(body) > EVENT_MAX_BYTES or not 0 <= letter.length < 10**OFFSET_DIGITS:
        return Unreadable(line, "damaged_letter", f"an event of {max(len(body), letter.length)} bytes cannot be")
    return Event(line, letter, body)


def _batch(raw: bytes, data: bytes, reason: str) -> Item:
    """A stream record as it reads by now; `raw` is what it came from."""
    try:
        header, slices = batch.decode(data)
        return Batch(raw, reason, data, header, [offset for piece in slices for offset in piece.offsets])
    except BatchDamaged as error:
        return Unreadable(raw, error.reason, f"still no batch that can be read: {error}")


class _Kinesis(msgspec.Struct):
    data: str


class _InvokedRecord(msgspec.Struct):
    kinesis: _Kinesis


class _Payload(msgspec.Struct):
    Records: list[msgspec.Raw]


_envelope = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _invocation(data: bytes) -> tuple[dict[str, msgspec.Raw], list[msgspec.Raw]]:
    """The members of Lambda's invocation record, and the stream records in it."""
    try:
        envelope = _envelope.decode(data)
        if "payload" not in envelope:
            raise DeadLetterDamaged(_missing(data))
        payload = msgspec.json.decode(envelope["payload"])
        text = payload if isinstance(payload, str) else bytes(envelope["payload"])
        return envelope, msgspec.json.decode(text, type=_Payload).Records
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise DeadLetterDamaged(f"not an invocation record of Lambda: {error}") from error


def _missing(data: bytes) -> str:
    info: Any = msgspec.json.decode(data).get("KinesisBatchInfo")
    where = info if isinstance(info, dict) else {}
    return (
        "Lambda wrote where the records are, but not the records: read them from "
        f"{where.get('streamArn', 'the stream')}, {where.get('shardId', 'its shard')}, sequence numbers "
        f"{where.get('startSequenceNumber', '?')} to {where.get('endSequenceNumber', '?')}, while it keeps them"
    )


def _invoked(raw: msgspec.Raw) -> Item:
    try:
        data = base64.b64decode(msgspec.json.decode(raw, type=_InvokedRecord).kinesis.data, validate=True)
    except (msgspec.DecodeError, UnicodeError, binascii.Error, RecursionError) as error:
        return Unreadable(bytes(raw), "damaged_record", f"not a Kinesis record of Lambda: {error}")
    return _batch(bytes(raw), data, "given_up_by_lambda")


class _Lines:
    """Lines into a gzip file, compressed as they come."""

    def __init__(self) -> None:
        self._gzip = isal_zlib.compressobj(1, isal_zlib.DEFLATED, 31)
        self._parts: list[bytes] = []

    def add(self, item: Item) -> None:
        self._parts.append(self._gzip.compress(item.raw + b"\n"))

    def finish(self) -> bytes:
        return b"".join([*self._parts, self._gzip.flush()])


class _Invocation:
    """An invocation record with fewer stream records in it."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._records: list[msgspec.Raw] = []

    def add(self, item: Item) -> None:
        self._records.append(msgspec.Raw(item.raw))

    def finish(self) -> bytes:
        envelope, _ = _invocation(self._data)
        payload = msgspec.json.encode(_Payload(self._records)).decode()
        return msgspec.json.encode({**envelope, "payload": payload})
