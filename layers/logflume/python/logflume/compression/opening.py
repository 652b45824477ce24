"""From an object and what was checkpointed of it to the decoder that goes on there."""

from logflume.compression import formats, igzip_state
from logflume.compression.decoder import Caps, Decoder, Plan
from logflume.compression.gzip import GzipDecoder
from logflume.compression.inflate import ZlibInflater
from logflume.compression.plain import PlainDecoder
from logflume.compression.snapshots import Position, unpack
from logflume.compression.streams import STREAM_FORMATS, StreamDecoder
from logflume.compression.wire import Source, Wire
from logflume.limits import STEP_BYTES

_DEFAULT_CAPS = Caps()


def open_decoder(
    source: Source,
    *,
    at: int = 0,
    state: bytes = b"",
    binding: bytes = b"",
    caps: Caps = _DEFAULT_CAPS,
    _step_bytes: int = STEP_BYTES,
) -> Decoder:
    """A decoder of the object that yields from the decompressed offset `at`, an edge of the 1 MiB grid.

    `state` is what `Snapshot.pack` gave at that edge, `binding` the bytes that name the object (both times the same).
    A state that is damaged, or of another object, edge, ISA-L version or architecture, is no error: the object is
    then read from its start and skipped, which `Decoder.resumed` tells. Reads the object's first bytes at once.
    """
    if at % _step_bytes:
        raise ValueError(f"{at} is no edge of the grid of {_step_bytes} bytes")
    restored = Plan(at, at, binding, caps, _step_bytes)
    position = unpack(state, binding, at)
    if position and (decoder := _resume(source, position, restored)):
        return decoder
    wire = Wire(source)
    name = formats.detect(wire.peek(formats.MAGIC_BYTES))
    if name == formats.PLAIN:
        return PlainDecoder(name, Wire(source, at) if at else wire, restored)
    plan = Plan(at, 0, binding, caps, _step_bytes)
    if name == formats.EMPTY:
        return PlainDecoder(name, wire, plan)
    if name == formats.GZIP:
        return GzipDecoder(wire, plan, igzip_state.new_inflater(_step_bytes) or ZlibInflater())
    return StreamDecoder(STREAM_FORMATS[name], source, wire, plan)


def _resume(source: Source, position: Position, plan: Plan) -> Decoder | None:
    wire = Wire(source, position.wire_offset)
    if position.format == formats.PLAIN:
        return PlainDecoder(formats.PLAIN, wire, plan)
    inflater = igzip_state.new_inflater(plan.step_bytes, position.inflate_state)
    return GzipDecoder(wire, plan, inflater, position.member_start) if inflater else None
