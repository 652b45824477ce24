"""Framing: decompressed bytes to events with their exact byte offsets."""

from logflume.framing.contract import Framing
from logflume.framing.delimited import Delimited, DelimitedOptions
from logflume.framing.encodings import BehindMark, TranscodedLines, Utf16Lines, encoding_of
from logflume.framing.json_records import JsonOptions, JsonRecords
from logflume.framing.lines import Lines, LinesOptions
from logflume.framing.multiline import Multiline, MultilineOptions
from logflume.limits import EVENT_MAX_BYTES

__all__ = [
    "DelimitedOptions",
    "Framing",
    "FramingOptions",
    "JsonOptions",
    "LinesOptions",
    "MultilineOptions",
    "build",
]

# What a source's framing may be; `type` tells which.
FramingOptions = LinesOptions | MultilineOptions | DelimitedOptions | JsonOptions


def build(options: FramingOptions, at: int = 0, state: str = "", *, max_bytes: int = EVENT_MAX_BYTES) -> Framing:
    """The framing for these options, resumed at a boundary with its state.

    At 0 the stream begins: a byte order mark there is no part of any event, the first one lies behind it.
    """

    def begin(encoding: str, at: int) -> Framing:
        match options:
            case LinesOptions(encoding="latin-1"):
                return TranscodedLines(options, at, max_bytes=max_bytes)
            case LinesOptions(encoding="utf-8"):
                return Lines(options, at, max_bytes=max_bytes)
            case LinesOptions():
                return Utf16Lines(options, at, encoding, max_bytes=max_bytes)
            case MultilineOptions():
                return Multiline(options, at, state, max_bytes=max_bytes)
            case DelimitedOptions():
                return Delimited(options, at, state, max_bytes=max_bytes)
            case JsonOptions():
                return JsonRecords(options, at, state, max_bytes=max_bytes)

    expected = options.encoding if isinstance(options, LinesOptions) else "utf-8"
    return begin(encoding_of(expected, state), at) if at else BehindMark(begin, expected)
