"""JSON oddities on a real OpenSearch: each line ends in the index or in the dead letters, and none blocks its batch."""

import gzip
import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec
import pytest

from logflume.batch import BatchWriter, IndexRule, Record, Slice
from logflume.bulk import Bulk
from logflume.deadletters import DeadLetters
from logflume.indexer import Indexer, StreamRecord
from logflume.rules import Rules
from logflume.search import Endpoint, SearchClient
from logflume.sources import Source
from tests.fakes.clock import Clock
from tests.fakes.headers import header
from tests.integration.real_opensearch import RealOpenSearch, real_opensearch

FAR = 1e12
NOW_MS = 1_795_245_900_000
GOOD = b'{"n":%d,"text":"good"}'
numbers = count()

ODDITIES = {
    "a key twice": b'{"a":1,"a":2}',
    "a key twice, deeper": b'{"o":{"a":1,"a":"x"}}',
    "our key once": b'{"@timestamp":"2026-11-21T07:24:59.5Z","level":"info"}',
    "our key twice": b'{"@timestamp":"2026-11-21T07:25:00Z","@timestamp":"2026-11-20T07:25:00Z"}',
    "a huge integer": b'{"n":' + b"9" * 400 + b"}",
    "an integer over 64 bits": b'{"n":18446744073709551616}',
    "a huge exponent": b'{"x":1e400}',
    "a tiny exponent": b'{"x":1e-400}',
    "a number of a thousand digits": b'{"x":0.' + b"1" * 1000 + b"}",
    "a lone surrogate": b'{"s":"\\ud800"}',
    "surrogates reversed": b'{"s":"\\udc00\\ud800"}',
    "a lone surrogate in a key": b'{"\\ud800":1}',
    "NUL escaped": b'{"s":"\\u0000"}',
    "NUL as it is": b'{"s":"\x00"}',
    "NUL before the line": b"\x00{}",
    "invalid UTF-8": b'{"s":"\xff\xfe"}',
    "invalid UTF-8 in a key": b'{"\xff":1}',
    "an overlong encoding": b'{"s":"\xc0\xaf"}',
    "a surrogate encoded": b'{"s":"\xed\xa0\x80"}',
    "deep objects": b'{"a":' * 150 + b"1" + b"}" * 150,
    "very deep arrays": b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "deep without an end": b"[" * 20_000,
    "our log as text": b'{"log":"theirs"}',
    "our log as an object": b'{"log":{"offset":"x","file":{"path":"y"},"level":"info"}}',
    "our log dotted": b'{"log.offset":"x","log.file.path":1,"log.file":"z"}',
    "our time as an object": b'{"@timestamp":{"a":1}}',
    "our time as null": b'{"@timestamp":null}',
    "tags as an object": b'{"tags":{"a":1}}',
    "an array": b"[1,2,3]",
    "a number": b"42",
    "a text": b'"text"',
    "null": b"null",
    "bare words": b"ERROR something happened",
    "an empty object": b"{}",
    "an empty key": b'{"":1}',
    "keys of dots": b'{".":1,"a..b":2,".a":3,"a.":4}',
    "a key of blanks": b'{" ":1}',
    "a key of 40,000 characters": b'{"' + b"k" * 40_000 + b'":1}',
    "a text of 40,000 characters": b'{"s":"' + b"s" * 40_000 + b'"}',
    "an object where a scalar was": b'{"text":{"a":1}}',
    "a scalar where an object was": b'{"o":1}',
    "two objects": b'{"a":1}{"b":2}',
    "an object and a comma": b'{"a":1},',
    "single quotes": b"{'a':1}",
    "NaN": b'{"x":NaN}',
    "a comment": b'{"a":1} // note',
    "a CR within": b'{"a":1,\r"b":2}',
    "a byte order mark": b'\xef\xbb\xbf{"a":1}',
    "what looks like an action": b'{"index":{"_index":"other","_id":"1"}}',
    "a tab in a text": b'{"s":"a\tb"}',
    "a line separator": '{"s":"a\u2028b"}'.encode(),
}


class Bucket:
    """The S3 call that dead letters need."""

    def __init__(self) -> None:
        self.letters: list[dict[str, Any]] = []

    def put_object(self, *, Body: bytes, **_: Any) -> None:  # noqa: N803
        self.letters += [json.loads(line) for line in gzip.decompress(Body).splitlines()]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealOpenSearch]:
    with real_opensearch(tmp_path_factory.mktemp("opensearch")) as real:
        yield real


@pytest.mark.parametrize("parser", ["json", "rules"])
def test_every_odd_line_ends_somewhere_with_a_reason_and_blocks_nobody(server: RealOpenSearch, parser: str) -> None:
    """Spliced as it is where that is allowed, and through a source's rules."""
    index = f"odd{next(numbers)}"
    lines = [event for number, odd in enumerate(ODDITIES.values()) for event in (GOOD % number, odd)]
    of = header(parser=parser, index=IndexRule(index, "month"), modified_ms=NOW_MS)
    made: list[Record] = []
    writer, at, names = BatchWriter(of, made.append), 0, {}
    for number, line in enumerate(lines):
        names[f"{of.lineage}{at:015d}"] = "good" if number % 2 == 0 else [*ODDITIES][number // 2]
        writer.add(Slice([at], [line], {}), at + len(line) + 1)
        at += len(line) + 1
    writer.close()
    rules = Rules(msgspec.convert({"name": "a", "match": [], "parser": "json", "timestamp": {}}, Source))
    clock, bucket, client = Clock(), Bucket(), SearchClient(Endpoint(server.url))
    indexer = Indexer(
        Bulk(client, clock=clock, sleep=clock.sleep),
        DeadLetters(bucket, "dead"),  # type: ignore[arg-type]
        rules=lambda source: rules,
        clock=lambda: NOW_MS / 1000,
    )
    report = indexer.run([StreamRecord(str(n), each.data, NOW_MS) for n, each in enumerate(made)], deadline=FAR)
    client.close()
    assert report.unfinished is None, report.problem
    indexed = set(server.ids(f"{index}-*"))
    dead = {letter["id"]: letter["reason"] for letter in bucket.letters}
    assert indexed | dead.keys() == names.keys()
    assert not indexed & dead.keys()
    assert all(dead.values())
    rejected = sorted(names[one] for one in dead)
    print(rejected)
    assert "good" not in rejected
    # What OpenSearch itself cannot hold; the first of the two forms of a field decides.
    assert set(rejected) <= {
        "a key twice",
        "a key twice, deeper",
        "our key twice",
        "a huge integer",
        "an integer over 64 bits",
        "a huge exponent",
        "a number of a thousand digits",
        "deep objects",
        "very deep arrays",
        "tags as an object",
        "an empty key",
        "keys of dots",
        "a key of blanks",
        "a key of 40,000 characters",
        "a text of 40,000 characters",
        "an object where a scalar was",
        "a scalar where an object was",
        "a lone surrogate",
        "a lone surrogate in a key",
        "our log dotted",
        "surrogates reversed",
    }
