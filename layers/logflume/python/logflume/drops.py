"""Drops: which events a source's rules left out, on record so that an audit can tell them from lost ones.

One S3 object for each batch of which events were dropped, named after its content: writing it again changes nothing.

    dropped/<object id>/<first offset>-<last offset>.json.gz     a `Dropped`

A batch that comes again with other boundaries writes other objects with the same events, so whoever counts takes
distinct offsets.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import msgspec
from isal import isal_zlib

from logflume.batch import Header
from logflume.errors import LogflumeError
from logflume.limits import BATCH_MAX_EVENTS, MIB, OFFSET_DIGITS

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

DROPPED_PREFIX = "dropped/"

# 50,000 events that lie as far apart as can be, and their object's id and source.
_MAX_JSON_BYTES = 2 * MIB


class DropsDamaged(LogflumeError):
    """A record of drops is none of ours, or cut: what it said is not known."""

    reason = "damaged_drops"


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """The dropped events of one batch, in order, by their byte offsets in the decompressed object.

    `steps` is the first one's offset, then the distance from each to the next: about a byte an event, compressed.
    """

    object_id: str
    source: str
    steps: list[int]


_decoder = msgspec.json.Decoder(Dropped)


def packed(header: Header, offsets: Sequence[int]) -> tuple[str, bytes]:
    """Key and body of the record that these events, at ascending offsets, were dropped."""
    steps = [offsets[0], *(after - before for before, after in pairwise(offsets))]
    record = Dropped(object_id=header.object_id, source=header.source, steps=steps)
    name = f"{offsets[0]:0{OFFSET_DIGITS}d}-{offsets[-1]:0{OFFSET_DIGITS}d}.json.gz"
    return f"{_folder(header.object_id)}{name}", isal_zlib.compress(msgspec.json.encode(record), 1, 31)


def unpacked(data: bytes) -> Iterable[int]:
    """The offsets in such a body. Raises `DropsDamaged`."""
    try:
        inflater = zlib.decompressobj(31)
        record = _decoder.decode(inflater.decompress(data, _MAX_JSON_BYTES))
    except (zlib.error, msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise DropsDamaged(f"no record of dropped events: {error}") from error
    steps = record.steps
    if not (inflater.eof and 0 < len(steps) <= BATCH_MAX_EVENTS and min(steps) >= 0 and sum(steps) < 10**OFFSET_DIGITS):
        raise DropsDamaged("no record of dropped events: cut, or not of any batch")
    return accumulate(steps)


def dropped(s3: "S3Client", bucket: str, object_id: str) -> Iterator[int]:
    """The offsets of an object's dropped events, some of them perhaps several times. Raises `DropsDamaged`."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=_folder(object_id))
    for page in pages:
        for entry in page.get("Contents", []):
            yield from unpacked(s3.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read())


def _folder(object_id: str) -> str:
    return f"{DROPPED_PREFIX}{object_id}/"
