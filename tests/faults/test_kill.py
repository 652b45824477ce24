"""Readers killed at random moments: the next one goes on, every event arrives, little is read twice."""

import os
import random
from collections import Counter
from itertools import accumulate
from pathlib import Path

from logflume.ledger import Ledger
from logflume.limits import STEP_BYTES
from logflume.notifications import ObjectRef, continuation_body
from logflume.reader import CHECKPOINT_BYTES
from tests.faults.conftest import BUCKET, TABLE, Aws
from tests.faults.readers import Reader
from tests.faults.spool import Spool
from tests.faults.text import Text

KILLS = 10
RAW_BYTES = 1_000_000_000
# Another one each time, so that many runs try many moments; set it to repeat a run.
SEED_VARIABLE = "LOGFLUME_KILL_SEED"
LONGEST_DELAY_S = 0.03


def drop(aws: Aws, text: Text, file: Path) -> ObjectRef:
    """The text as a gzip object, and its announcement."""
    with file.open("wb") as compressed:
        compressed.writelines(text.gzip())
    key, size = "drop/big.json.gz", file.stat().st_size
    with file.open("rb") as body:
        etag = aws.s3.put_object(Bucket=BUCKET, Key=key, Body=body)["ETag"]
    ref = ObjectRef(BUCKET, key, None, etag, size)
    aws.sqs.send_message(QueueUrl=aws.queue_url, MessageBody=continuation_body(ref, 0))
    return ref


def deliveries(spool: Spool, text: Text) -> Counter[int]:
    """How often each event arrived, by its id's offset; that each is what the text has there is asserted."""
    found: Counter[int] = Counter()
    for offsets, events, cut, _ in spool.slices():
        assert not cut
        assert offsets == list(accumulate((len(event) + 1 for event in events[:-1]), initial=offsets[0]))
        arrived = b"\n".join(events) + b"\n"
        start = max(0, offsets[0] - 1)
        assert text.part(start, offsets[0] + len(arrived)) == (b"\n" if offsets[0] else b"") + arrived
        assert arrived.count(b"\n") == len(events)
        found.update(offsets)
    return found


def test_killed_ten_times_in_a_gigabyte_every_event_arrives_and_little_is_inflated_twice(
    aws: Aws, tmp_path: Path
) -> None:
    seed = int(os.environ.get(SEED_VARIABLE) or random.SystemRandom().getrandbits(32))
    chance, text = random.Random(seed), Text(RAW_BYTES)
    # One in each part of the file, so that every reader gets somewhere: several that do not are one test elsewhere.
    moments = [round((part + chance.random()) / (KILLS + 1) * text.bytes) for part in range(KILLS)]
    print(f"{SEED_VARIABLE}={seed}, killed beyond {moments}")
    ref = drop(aws, text, tmp_path / "big.json.gz")
    with Spool(tmp_path) as spool:
        readers = []
        for number, moment in enumerate(moments):
            readers.append(Reader(aws, spool, tmp_path, number))
            readers[-1].kill(moment, chance.uniform(0, LONGEST_DELAY_S))
        readers.append(Reader(aws, spool, tmp_path, KILLS))
        readers[-1].finish()
        found = deliveries(spool, text)
    inflated = [reader.inflated for reader in readers]
    again = sum(inflated) - text.bytes
    print(f"inflated {inflated}, {again:,} bytes more than once; {found.total() - len(found):,} events more than once")

    assert len(found) == text.lines  # every event at its offset, and no other
    assert again <= KILLS * (CHECKPOINT_BYTES + STEP_BYTES)
    item = Ledger(aws.dynamodb, TABLE).get(ref.id)
    assert item is not None
    assert (item["status"], item["epoch"]) == ("done", KILLS + 1)
    assert (item["events"], item["offset"]) == (text.lines, text.bytes)
