"""A `_bulk` server in a process of its own, at a distance: what a client pays for connections shows, and nothing else.

The server reads a request and answers at once, over TCP and over TLS. In front of it stands a relay for each distance
that delays every byte by half a round trip in each direction, and holds the first ones of a connection for a whole
one more: the round trip that opening it costs. Those of the TLS handshake are the handshake's own.

    python -m bench.far_server CHAIN KEY RTT_MS…      prints its ports as JSON, ends with its standard input
"""

import asyncio
import json
import re
import selectors
import ssl
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from bench.certificates import Authority
from logflume.limits import KIB, MIB

HOST = "127.0.0.1"
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_GONE = (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError)


class FarServer:
    """The server's process, for the length of the block: `url("tls", 5)` is 5 ms of round trip away."""

    def __init__(self, authority: Authority, rtts_ms: Sequence[float]) -> None:
        self._command = [sys.executable, "-m", "bench.far_server"]
        self._command += [str(authority.chain_file), str(authority.key_file), *map(str, rtts_ms)]

    def url(self, transport: str, rtt_ms: float) -> str:
        """Where the server is over "tcp" or "tls" at this distance."""
        return f"{'https' if transport == 'tls' else 'http'}://{HOST}:{self._ports[f'{transport} {float(rtt_ms)}']}"

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout  # noqa: S101 - a pipe was asked for
        self._ports: dict[str, int] = json.loads(self._process.stdout.readline())
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


class _Server:
    def __init__(self) -> None:
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection's requests, until it ends."""
        self.connections += 1
        with suppress(*_GONE):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                await reader.readexactly(int(length[1]) if length else 0)
                body = b'{"items":[],"connections":%d}' % self.connections
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
                writer.write(b"content-length: %d\r\n\r\n%b" % (len(body), body))
        await _end(writer)


class _Relay:
    def __init__(self, port: int, rtt_s: float) -> None:
        self._port = port
        self._rtt_s = rtt_s

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection's bytes there and back."""
        opened = asyncio.get_running_loop().time() + self._rtt_s
        there_reader, there_writer = await asyncio.open_connection(HOST, self._port, limit=MIB)
        await asyncio.gather(
            self._carry(reader, there_writer, opened),
            self._carry(there_reader, writer, opened),
        )

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, opened: float) -> None:
        now = asyncio.get_running_loop().time
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def arrive() -> None:
            with suppress(*_GONE):
                while True:
                    at, data = await under_way.get()
                    await asyncio.sleep(max(0.0, at - now()))
                    if not data:
                        break
                    writer.write(data)
            await _end(writer)

        arriving = asyncio.create_task(arrive())
        data = b"more"
        while data:
            try:
                data = await reader.read(256 * KIB)
            except ConnectionError:
                data = b""
            under_way.put_nowait((max(now(), opened) + self._rtt_s / 2, data))
        await arriving


async def _end(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(*_GONE):
        await writer.wait_closed()


async def _run(chain: Path, key: Path, rtts_ms: list[float]) -> None:
    ports = {}
    authority = Authority(chain, chain, key)
    for transport, context in (("tcp", None), ("tls", authority.server_context())):
        server = await asyncio.start_server(_Server().serve, HOST, 0, ssl=context, limit=2 * MIB)
        near = server.sockets[0].getsockname()[1]
        for rtt_ms in rtts_ms:
            relay = await asyncio.start_server(_Relay(near, rtt_ms / 1000).serve, HOST, 0, limit=MIB)
            ports[f"{transport} {rtt_ms}"] = relay.sockets[0].getsockname()[1] if rtt_ms else near
    print(json.dumps(ports), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    # select() waits for microseconds; epoll would round every delay up to a millisecond.
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        runner.run(_run(Path(sys.argv[1]), Path(sys.argv[2]), [float(each) for each in sys.argv[3:]]))
