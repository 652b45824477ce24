"""A real OpenSearch on a free loopback port, with settings of its own, for the length of a block."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infra.local.install import install
from infra.local.opensearch import NAME, opensearch
from infra.local.service import Services, free_port
from logflume.search import Endpoint, SearchClient


class RealOpenSearch:
    """The server at `url`, and what tests ask of it besides `_bulk`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._client = SearchClient(Endpoint(url))

    def ask(self, method: str, path: str, body: object = None, **params: str) -> Any:
        """The answer to a request that must succeed."""
        status, answer = self._client.request(method, path, body, **params)
        assert status == 200, answer
        return answer

    def create(self, index: str, *, mappings: Mapping[str, Any] | None = None, **settings: Any) -> None:
        """Make an index of one shard, unless `settings` say otherwise."""
        body = {"settings": {"number_of_replicas": 0, **settings}, "mappings": mappings or {}}
        self.ask("PUT", f"/{index}", body, wait_for_active_shards="0")

    def set_index(self, index: str, **settings: Any) -> None:
        """Change an index's settings; None is the default. A dot is written as two underscores."""
        self.ask("PUT", f"/{index}/_settings", {name.replace("__", "."): value for name, value in settings.items()})

    def set_cluster(self, **settings: Any) -> None:
        """Change the cluster's settings; None is the default. A dot is written as two underscores."""
        changes = {name.replace("__", "."): value for name, value in settings.items()}
        self.ask("PUT", "/_cluster/settings", {"persistent": changes})

    def ids(self, index: str) -> list[str]:
        """The ids of every document of the index, in order."""
        self.ask("POST", f"/{index}/_refresh")
        answer = self.ask("POST", f"/{index}/_search", {"size": 10_000, "_source": False})
        return sorted(hit["_id"] for hit in answer["hits"]["hits"])

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


@contextmanager
def real_opensearch(home: Path, settings: str = "") -> Iterator[RealOpenSearch]:
    """Start it with its data in `home` and these lines added to its configuration; ended with the block."""
    service = opensearch(home / NAME, free_port(), install(lambda _: None))
    with (home / NAME / "config" / "opensearch.yml").open("a") as configuration:
        configuration.write(settings)
    services = Services(home)
    services.start(service)
    try:
        services.wait(service)
        server = RealOpenSearch(f"http://127.0.0.1:{service.port}")
        yield server
        server.close()
    finally:
        services.stop(NAME)
