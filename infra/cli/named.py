"""Named: the objects that somebody means by a key, an `s3://` address or an object id."""

import re
from collections.abc import Iterator

from infra.cli.deployment import Deployment
from infra.cli.status import created_ms
from infra.cli.terminal import printable
from logflume.errors import LogflumeError
from logflume.notifications import ObjectRef
from logflume.objects import LogObject
from logflume.table import Item

_ID = re.compile(r"[0-9a-f]{32}")


def ref_of(item: Item) -> ObjectRef:
    """The object of a ledger's item, as its notification named it."""
    return ObjectRef(
        str(item["bucket"]),
        str(item["key"]),
        str(item["version"]) if "version" in item else None,
        str(item["etag"]) if "etag" in item else None,
        int(item["size"]) if "size" in item else None,
        int(item["created_ms"]) if "created_ms" in item else None,
    )


def objects_named(deployment: Deployment, name: str) -> list[Item]:
    """The ledger's items with this name, newest first: a key has several where it was written more than once.

    A key may stand as in the table of `logflume status`, without the drop folder. The whole ledger is only searched
    where neither the object that lies there now nor a failed one has the name.
    """
    if _ID.fullmatch(name) and (item := deployment.ledger.get(name)):
        return [item]
    bucket, keys = _address(deployment, name)

    def named(item: Item) -> bool:
        return item.get("bucket") == bucket and item.get("key") in keys

    found = {str(item["id"]): item for item in deployment.ledger.open_objects("failed") if named(item)}
    found |= {str(item["id"]): item for item in _there_now(deployment, bucket, keys)}
    if not found:
        found = {str(item["id"]): item for item in deployment.ledger.objects() if named(item)}
    return sorted(found.values(), key=created_ms, reverse=True)


def shown_name(deployment: Deployment, item: Item) -> str:
    """The object's key as tables show it, safe for a terminal."""
    return printable(str(item["key"]).removeprefix(deployment["DropPrefix"]))


def _address(deployment: Deployment, name: str) -> tuple[str, tuple[str, ...]]:
    if name.startswith("s3://"):
        bucket, _, key = name.removeprefix("s3://").partition("/")
        return bucket, (key,)
    return deployment["DropBucket"], (name, deployment["DropPrefix"] + name)


def _there_now(deployment: Deployment, bucket: str, keys: tuple[str, ...]) -> Iterator[Item]:
    """What lies under these keys, if the ledger knows it."""
    for key in filter(None, keys):
        try:
            info = LogObject(deployment.s3, ObjectRef(bucket, key), attempts=1).head()
        except LogflumeError:
            continue  # not there any more, or not for us to see
        if item := deployment.ledger.get(ObjectRef(bucket, key, info.version_id, info.etag).id):
            yield item
