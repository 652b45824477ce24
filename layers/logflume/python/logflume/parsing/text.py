"""Plain text: the event's bytes become a JSON string."""

from msgspec.json import encode

INVALID_UTF8 = "_invalid_utf8"


def quote(events: list[bytes]) -> list[bytes]:
    """Each event as a JSON string, quotes included; empty where its bytes are no UTF-8."""
    try:
        return [encode(event.decode()) for event in events]
    except UnicodeDecodeError:
        return [_quote_one(event) for event in events]


def _quote_one(event: bytes) -> bytes:
    try:
        return encode(event.decode())
    except UnicodeDecodeError:
        return b""


def readable(event: bytes) -> tuple[str, list[str]]:
    """The event as text and the tags it deserves: invalid bytes become U+FFFD, visibly, and are flagged."""
    try:
        return event.decode(), []
    except UnicodeDecodeError:
        return event.decode("utf-8", "replace"), [INVALID_UTF8]
