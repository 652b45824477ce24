"""Connections: kept alive over requests and invocations, and replaced before use once they are too old.

urllib3 asks a pooled connection whether it is still connected before it hands it out, and opens it anew if it is not.
That is where the rules apply, to each connection by itself: of two, one may have been idle while the other was used.
"""

from collections.abc import Callable
from functools import partial
from socket import socket
from threading import Lock
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

# A load balancer or firewall may have dropped a connection that was idle this long (environments freeze in between).
IDLE_S = 60.0
# A connection keeps the address it was opened to: replaced in time, it follows DNS.
MAX_AGE_S = 600.0
# Each address of a host is tried in its turn, and where a firewall swallows packets none says no: a domain in three
# zones has three. A SYN is repeated after a second.
CONNECT_S = 3.0


class Keeping:
    """How long the connections of some pools are kept, by `clock` (wall-clock seconds), and how many were opened."""

    def __init__(self, clock: Callable[[], float], *, idle_s: float = IDLE_S, max_age_s: float = MAX_AGE_S) -> None:
        self.clock = clock
        self.opened = 0
        self._idle_s = idle_s
        self._max_age_s = max_age_s
        self._lock = Lock()

    def govern(self, pool: HTTPConnectionPool) -> None:
        """Have every connection that this pool makes from now on kept by these rules."""
        kind = _KeptTls if isinstance(pool, HTTPSConnectionPool) else _Kept
        made: Any = partial(kind, self)
        pool.ConnectionCls = made

    def count(self) -> None:
        """One more connection was opened."""
        with self._lock:
            self.opened += 1

    def fresh(self, opened: float, used: float) -> bool:
        """Whether a connection opened and last used at these times may be used again."""
        now = self.clock()
        return now - used <= self._idle_s and now - opened <= self._max_age_s


class _Kept(HTTPConnection):
    """A connection that knows when it was opened and when it last brought an answer."""

    def __init__(self, keeping: Keeping, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._keeping = keeping
        self._opened = self._used = 0.0

    def connect(self) -> None:
        super().connect()
        self._keeping.count()
        self._opened = self._used = self._keeping.clock()

    def _new_conn(self) -> socket:
        """Of the request's time an address has a part only; TLS and the answer have it whole."""
        whole, self.timeout = self.timeout, CONNECT_S
        try:
            sock = super()._new_conn()
        finally:
            self.timeout = whole
        sock.settimeout(whole)
        return sock

    @property
    def is_connected(self) -> bool:
        return super().is_connected and self._keeping.fresh(self._opened, self._used)

    def getresponse(self) -> Any:
        response = super().getresponse()
        self._used = self._keeping.clock()
        return response


class _KeptTls(_Kept, HTTPSConnection):
    pass
