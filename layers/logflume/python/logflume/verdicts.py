"""Verdicts: what the answers to a `_bulk` request ask for, item by item."""

from enum import Enum

import msgspec

# Error types that say the index or our rights are at fault, not the document (status 400, 403 or 404 alike).
_OUTAGE_TYPES = frozenset(
    {
        "security_exception",
        "validation_exception",  # the cluster's shard limit
        "index_closed_exception",
        "index_not_found_exception",
        "authorization_exception",
    }
)
# One that says the document is at fault although its status is 500: a name with a thousand dots nests so deep.
_DOCUMENT_TYPE = "stream_constraints_exception"
_BLOCK_TYPE = "cluster_block_exception"
# What a Serverless collection of another type than SEARCH says to every document (an illegal_argument_exception).
_IDS_REFUSED = "Document ID is not supported"
# What a server says to every request where `rest.action.multi.allow_explicit_index` is false, an option of Amazon
# OpenSearch Service (an illegal_argument_exception).
_INDICES_REFUSED = "explicit index in bulk is not allowed"


class Verdict(Enum):
    """What an item's answer asks for."""

    CREATED = "created"
    DUPLICATE = "duplicate"
    RETRY = "retry"
    REJECTED = "rejected"
    BLOCKED = "blocked"
    OUTAGE = "outage"


class ItemError(msgspec.Struct):
    """Why an item failed."""

    type: str = ""
    reason: str = ""


class ItemAnswer(msgspec.Struct):
    """One item of a `_bulk` answer."""

    status: int
    error: ItemError | None = None


class _Item(msgspec.Struct):
    create: ItemAnswer


class _Answer(msgspec.Struct):
    items: list[_Item]


class _Refusal(msgspec.Struct):
    error: ItemError


_answer = msgspec.json.Decoder(_Answer)
_refusal = msgspec.json.Decoder(_Refusal)

# Only what is read comes back, whatever the server would like to say.
FILTER_PATH = "items.*.status,items.*.error.type,items.*.error.reason"
_CREATED = '{"create":{"status":201}}'


def verdict(item: ItemAnswer) -> Verdict:
    """An item's verdict: by error type first, by status second."""
    kind = item.error.type if item.error else ""
    if kind == _BLOCK_TYPE:
        return Verdict.RETRY if item.status == 429 else Verdict.BLOCKED
    if kind in _OUTAGE_TYPES or (item.error and item.error.reason.startswith(_IDS_REFUSED)):
        return Verdict.OUTAGE
    if kind == _DOCUMENT_TYPE:
        return Verdict.REJECTED
    if 200 <= item.status < 300:
        return Verdict.CREATED
    if item.status == 409:
        return Verdict.DUPLICATE
    if item.status == 429 or item.status >= 500:
        return Verdict.RETRY
    if item.status in (401, 403, 404):
        return Verdict.OUTAGE
    return Verdict.REJECTED


def all_created(text: str, count: int) -> bool:
    """Whether the answer says of so many items that each was created; the common case, told without decoding."""
    return '"error"' not in text and text.count(_CREATED) == count


def items_of(text: str, count: int) -> list[ItemAnswer] | None:
    """The items' answers in order, or None where the answer is cut or not what was asked for."""
    try:
        items = _answer.decode(text).items
    except (msgspec.DecodeError, UnicodeError):
        return None
    return [item.create for item in items] if len(items) == count else None


def blames_the_body(text: str) -> bool:
    """Whether a 400 is OpenSearch's own about what the body holds; a wrong path or a proxy names no error type."""
    try:
        error = _refusal.decode(text).error
    except (msgspec.DecodeError, UnicodeError):
        return False
    return bool(error.type) and error.reason != _INDICES_REFUSED
