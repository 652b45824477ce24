"""The stream's stand-in that survives its readers: answers for a record only when it is written."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

from logflume.batch import Slice, decode
from tests.faults.reader_process import LENGTH, WRITTEN


class Spool:
    """Listens on a Unix socket within the `with` block. A record that arrives in part, its reader killed, is none.

    `furthest` is the highest offset at which a record's first event lies.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "socket"
        self.furthest = -1
        self._file = (folder / "records").open("w+b")
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)

    def __enter__(self) -> Self:
        self._listener.bind(str(self.path))
        self._listener.listen()
        threading.Thread(target=self._accept, name="spool", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._file.close()

    def slices(self) -> Iterator[Slice]:
        """What the records hold, in the order of their coming. Ask when no reader lives."""
        self._file.seek(0)
        while prefix := self._file.read(LENGTH.size):
            yield from decode(self._file.read(LENGTH.unpack(prefix)[0]))[1]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # the block is left
                return
            threading.Thread(target=self._serve, args=(connection,), name="spool-reader", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        # A kill shows as an end or as a reset, in a record or between it and our answer.
        with suppress(ConnectionError), connection, connection.makefile("rb") as incoming:
            while len(prefix := incoming.read(LENGTH.size)) == LENGTH.size:
                data = incoming.read(size := LENGTH.unpack(prefix)[0])
                if len(data) < size:
                    return
                first = next(decode(data)[1]).offsets[0]
                with self._lock:
                    self._file.write(prefix + data)
                    self.furthest = max(self.furthest, first)
                connection.sendall(WRITTEN)
