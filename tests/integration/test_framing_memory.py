"""Framing in flat memory: a gigabyte of records in one line, read in a process of its own."""

import subprocess
import sys

import pytest

# Steps are made as they are read; the peak before the first and behind the last is what the framing cost.
READ = """
import resource
from logflume.framing import {options}, build

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

framing = build({options}({arguments}))
step = {step}
step *= (1 << 20) // len(step)
before, events = peak(), 0
for each in ({begin}, *[step] * {steps}, {end}):
    for piece in framing.push(each):
        events += len(piece.events)
for piece in framing.finish():
    events += len(piece.events)
print(events, peak() - before)
"""
RECORD = b'{"eventVersion":"1.08","userIdentity":{"type":"AssumedRole","arn":"arn:aws:x"},"x":"%b"},' % (b"y" * 900)


@pytest.mark.parametrize(
    ("options", "arguments", "begin", "step", "steps", "end", "least"),
    [
        ("JsonOptions", "records='Records'", b'{"Records":[', RECORD, 1024, b"{}]}", 1_000_000),
        ("JsonOptions", "records='Records'", b'{"x":[', b'{"a":1},', 12, b'{}],"Records":[1]}', 1),
        ("JsonOptions", "records='Records'", b'{"Records":["', b"x", 256, b'"]}', 1),
        (
            "JsonOptions",
            "records='r', carry=('b',)",
            b'{"b":"%b","r":[' % (b"y" * 1000),
            b'{"a":1},',
            12,
            b"{}]}",
            1_500_000,
        ),
        ("MultilineOptions", "start='^never'", b"", b"a line of some length that never begins an event\n", 64, b"", 60),
        ("DelimitedOptions", "", b'a,b\n1,"', b"a line of some length in quotes without an end\n", 64, b"", 60),
        ("DelimitedOptions", "", b'a,b\n1,"', b"x", 64, b"\n", 1),
    ],
)
def test_memory_stays_within_32_mib_of_the_baseline(
    options: str, arguments: str, begin: bytes, step: bytes, steps: int, end: bytes, least: int
) -> None:
    script = READ.format(options=options, arguments=arguments, begin=begin, step=step, steps=steps, end=end)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    events, grown_mib = map(int, done.stdout.split())
    assert events >= least
    assert grown_mib <= 32
