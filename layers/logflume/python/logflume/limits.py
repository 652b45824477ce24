"""Quotas and limits, each with its unit and its source."""

KIB = 1 << 10
MIB = 1 << 20

# The grid on which everything resumable happens: steps of decompressed bytes.
STEP_BYTES = 1 * MIB

# Kinesis Data Streams, PutRecords: 500 records a call; a record's data and key up to 1 MiB (the classic quota,
# kept because every tool honours it). AWS allows 5 MiB a call, but serialising such a call takes 20 MiB of
# memory: ours stay at 1 MiB.
KINESIS_MAX_RECORD_BYTES = 1 * MIB
KINESIS_MAX_RECORDS_PER_CALL = 500
KINESIS_CALL_BYTES = 1 * MIB

# One batch = one Kinesis record; whichever comes first closes it, and the decoder enforces the same.
BATCH_TARGET_WIRE_BYTES = 480 * KIB  # a slice later it closes: two records fit into one call
BATCH_MAX_RAW_BYTES = 8 * MIB
BATCH_MAX_EVENTS = 50_000
# What the decoder refuses beyond that, so that no record costs more than some tens of MiB (docs/batch-format.md).
BATCH_MAX_STREAM_BYTES = BATCH_MAX_RAW_BYTES + 2 * MIB  # header, prefixes and offsets come on top of the events
BATCH_MAX_WINDOW_BYTES = 16 * MIB  # zstd; a power of two that holds the largest stream
BATCH_MAX_CONTAINERS = 16  # arrays and maps in one message; the largest of ours, a slice with cut events, has four
BATCH_MAX_STRING_BYTES = 64 * KIB
BATCH_MAX_CONTEXT_CHARACTERS = 32 * KIB
OFFSET_DIGITS = 15  # of a byte offset in an event's id: offsets are below 10^15
TIME_MAX_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z, the last that a datetime holds
S3_MAX_KEY_BYTES = 1024  # S3 user guide, "Naming Amazon S3 objects": UTF-8 bytes

# An event's bytes kept at most; 64 KiB below the record limit, so that an incompressible one fits with its header.
EVENT_MAX_BYTES = KINESIS_MAX_RECORD_BYTES - 64 * KIB

# Decompression: what an object may ask for before it counts as hostile or broken (all configurable). Deflate alone
# reaches 1032:1, honest logs 5:1 to 100:1, and a ratio says nothing about small objects. 128 MiB of window is what
# the xz and zstd tools themselves write at most (`xz -9`, `zstd --long`).
DECODED_MAX_BYTES = 1 << 40
DECODED_MAX_RATIO = 500
DECODED_RATIO_FROM_BYTES = 1 << 30
DECODER_MAX_WINDOW_BYTES = 128 * MIB
