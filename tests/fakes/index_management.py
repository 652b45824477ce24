"""OpenSearch's templates and policies, for the fake server: what Index State Management does, and a server without it.

The answers are those of OpenSearch 3.7 (`ism=False` is what a server without the plugin says).
"""

import json
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import parse_qs, urlsplit

from logflume.index_setup import POLICIES, TEMPLATES
from tests.fakes.opensearch import FakeOpenSearch


class IndexManagement:
    """Takes the place of the fake's own answers. `answers` keeps what is put anywhere else, `trouble` comes first."""

    def __init__(self, fake: FakeOpenSearch, *, ism: bool = True) -> None:
        self.url = fake.url
        self.ism = ism
        self.templates: dict[str, Any] = {}
        self.policies: dict[str, Any] = {}
        self.versions: dict[str, int] = {}
        self.in_use: set[str] = set()
        self.trouble: list[tuple[int, str]] = []
        self.answers: list[dict[str, Any]] = []
        self._fake = fake
        fake.serve = self.serve  # type: ignore[method-assign]

    @property
    def asked(self) -> list[str]:
        """Every request so far, as method and path."""
        return [f"{method} {path}" for method, path, _ in self._fake.requests]

    def serve(self, method: str, path: str, _headers: dict[str, str], body: bytes) -> tuple[int, str]:
        """The answer to a request."""
        content = json.loads(body) if body else None
        if path == "/cloudformation":
            self.answers.append(content)
            return 200, ""
        if self.trouble:
            return self.trouble.pop(0)
        folder, _, name = path.rpartition("/")
        if folder == TEMPLATES:
            return self._template(method, name, content)
        if folder == POLICIES and self.ism:
            return self._policy(method, name, content)
        return 400, json.dumps({"error": f"no handler found for uri [{path}] and method [{method}]"})

    def _template(self, method: str, name: str, body: Any) -> tuple[int, str]:
        if method == "GET":
            found = [{"name": each} for each in self.templates if fnmatchcase(each, name)]
            return 200 if found else 404, json.dumps({"index_templates": found})
        if method == "PUT":
            for other, there in self.templates.items():
                if other != name and (there["index_patterns"], there["priority"]) == (
                    body["index_patterns"],
                    body["priority"],
                ):
                    return _error(400, "illegal_argument_exception", f"matching patterns from templates [{other}]")
            self.templates[name] = body
            return 200, '{"acknowledged":true}'
        if name in self.in_use:
            return _error(400, "illegal_argument_exception", f"unable to remove composable templates [{name}]")
        return (200, "{}") if self.templates.pop(name, None) else _error(404, "index_template_missing_exception", name)

    def _policy(self, method: str, name: str, body: Any) -> tuple[int, str]:
        there = name in self.policies
        if method == "GET" and there:
            version = {"_seq_no": self.versions[name], "_primary_term": 7}
            return 200, json.dumps({"_id": name, **version, "policy": self.policies[name]})
        if method == "PUT":
            query = parse_qs(urlsplit(self._fake.requests[-1][1]).query)
            expected = {"if_seq_no": [str(self.versions[name])], "if_primary_term": ["7"]} if there else {}
            if query != expected:
                return _error(409, "version_conflict_engine_exception", "document already exists")
            self.policies[name] = body["policy"]
            self.versions[name] = self.versions.get(name, 0) + 1
            return 200 if there else 201, "{}"
        if method == "DELETE" and there:
            del self.policies[name]
            return 200, "{}"
        return _error(404, "status_exception", "Policy not found")


def _error(status: int, kind: str, reason: str) -> tuple[int, str]:
    return status, json.dumps({"error": {"type": kind, "reason": reason}, "status": status})
