"""Decompression: an object's stored bytes become steps of exactly 1 MiB, resumable at every edge of that grid.

The format is told by magic bytes, never by the name. gzip continues in constant time from a packed snapshot of
igzip's state, plain bytes by their offset; zstd, bzip2 and xz (and gzip where igzip's state is out of reach) are
read again from the start and skipped.

Everything that decompresses before a damage is delivered before the damage is raised.
"""

from logflume.compression.decoder import Caps, Decoder
from logflume.compression.opening import open_decoder
from logflume.compression.snapshots import Snapshot
from logflume.compression.wire import Source

__all__ = ["Caps", "Decoder", "Snapshot", "Source", "open_decoder"]
