"""Serverless: what Amazon OpenSearch Serverless (`aoss`) does not do, refused before it is asked for.

* Only collections of type SEARCH take the ids that make an event arrive once; TIMESERIES and VECTORSEARCH refuse every
  document that brings one ("Document ID is not supported in create/index operation request"). TIMESERIES is an
  at-least-once target for sources with `document_ids = false`.
* There is no refresh: documents become visible by themselves.
* There are no cluster and node APIs, no data streams and no ISM; index templates and `_bulk` are there.

Source: Amazon OpenSearch Service developer guide, "Supported operations and plugins in Amazon OpenSearch Serverless"
and "Choosing a collection type".
"""

from collections.abc import Mapping

from logflume.errors import ConfigurationError

SERVICE = "aoss"
# The types of collection that logs can go to: one that takes ids, and one that does not.
COLLECTION_TYPE_WITH_IDS = "search"
COLLECTION_TYPE_WITHOUT_IDS = "timeseries"

_MISSING = frozenset({"_cluster", "_data_stream", "_forcemerge", "_ism", "_nodes", "_refresh", "_rollover"})


def refuse_unsupported(path: str, params: Mapping[str, str]) -> None:
    """Raise `ConfigurationError` for a request that Serverless is known to have no answer to."""
    missing = _MISSING.intersection(path.split("/")) or {"refresh"}.intersection(params)
    if missing:
        raise ConfigurationError(f"OpenSearch Serverless has no {', '.join(sorted(missing))}: {path} cannot be asked")
