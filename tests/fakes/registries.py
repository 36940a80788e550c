"""Registries for tests: at every address, with one image that has any name, and a chart; nothing else."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from tests.world import NoWayOut
from windlass.base.http_out import HttpResult

DIGEST = f"sha256:{'d' * 64}"


class FakeRegistries(NoWayOut):
    async def send(self, method: str, url: str, *rest: Any, **options: Any) -> HttpResult:
        path = urlsplit(url).path
        if path.endswith("/index.yaml"):
            chart = [{"version": "1.4.2", "urls": ["shop-1.4.2.tgz"]}]
            return HttpResult(200, {}, json.dumps({"entries": {"shop": chart}}).encode(), False, 1)
        if not path.startswith("/v2/"):
            return await super().send(method, url, *rest, **options)
        answer: dict[str, Any] = {}
        if path.startswith(("/v2/search/", "/v2/repositories/")):
            is_first = "page=1&" in url
            answer = {"count": 1, "results": [{"repo_name": "nginx", "name": "nginx"}] if is_first else []}
        if path.endswith("/tags/list"):
            answer = {"tags": ["1.4.2", "1.5.0"]}
        if path == "/v2/_catalog":
            answer = {"repositories": ["acme/shop"]}
        headers = {"docker-distribution-api-version": "registry/2.0", "docker-content-digest": DIGEST}
        return HttpResult(200, headers, json.dumps(answer).encode(), False, 1)
