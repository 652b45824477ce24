"""What can go wrong, as types: raised where the foreign error is met, carrying what an operator needs."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import ClassVar


class LogflumeError(Exception):
    """Base of every error of ours; `reason` is a short stable slug fit for metrics and the ledger."""

    reason: str = "error"


class ConfigurationError(LogflumeError):
    """A setting is missing or wrong; nothing can run until it is mended."""

    reason = "configuration"


class CertificateRefused(ConfigurationError):
    """The server's certificate is not one that the configured authorities vouch for; nothing was sent."""

    reason = "tls"


class NotificationError(LogflumeError):
    """A message is none of the notification shapes we know."""

    reason = "unknown_notification"


class ObjectError(LogflumeError):
    """Reading an object ended for good: retrying the same bytes cannot help.

    `raw_offset` counts decompressed bytes, `wire_offset` the object's own, 0 where it is not known; `status` is the
    ledger state that the object ends in.
    """

    status: ClassVar[str] = "failed"

    def __init__(self, reason: str, detail: str, *, raw_offset: int = 0, wire_offset: int = 0) -> None:
        in_object = f", {wire_offset} in the object" if wire_offset else ""
        super().__init__(f"{reason}: {detail} (byte {raw_offset} decompressed{in_object})")
        self.reason = reason
        self.detail = detail
        self.raw_offset = raw_offset
        self.wire_offset = wire_offset


class ObjectDamaged(ObjectError):
    """The compressed stream is truncated, fails its checksum, or is no stream at all."""


class ObjectTooLarge(ObjectError):
    """Decompressing would pass a configured cap: size, ratio or decoder window."""


class ObjectGone(ObjectError):
    """The object was deleted before it was read."""

    status = "gone"


class ObjectSuperseded(ObjectError):
    """The key holds other bytes now (412 to If-Match): the newer object has a notification of its own."""

    status = "superseded"


class ObjectForbidden(ObjectError):
    """S3 or KMS denies the read; without `s3:ListBucket` a missing key answers the same."""

    status = "forbidden"


class ObjectArchived(ObjectError):
    """The object lies in an archive storage class and must be restored first."""

    status = "archived"


class ObjectUnavailable(LogflumeError):
    """S3 keeps failing in a way that may pass: give the object back and try again later."""

    reason = "object_unavailable"


class LeaseLost(LogflumeError):
    """Another reader took the object over: stop at once, write nothing more to the ledger."""

    reason = "lease_lost"


class StreamThrottled(LogflumeError):
    """Kinesis refuses records for longer than we wait: continue later instead of paying a Lambda to sleep."""

    reason = "stream_throttled"


class BatchDamaged(LogflumeError):
    """A stream record is no batch of ours, or breaks a limit; `reason` says which, nothing of it is trusted."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


class ParseFailure(LogflumeError):
    """An event is not what its source's parser takes; it is delivered as `message`, tagged with `reason`."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


class IndexOutage(LogflumeError):
    """OpenSearch cannot take documents now (down, denied, full): hand the records back, dead-letter nothing."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason


class IndexSetupError(LogflumeError):
    """OpenSearch does not take an index template or policy; the message says why, for who deploys."""

    reason = "index_setup"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` to put behind a word, or nothing where no known one is like it."""
    near = get_close_matches(word, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
