"""What is done with whole environments: copies, statuses, deployments, and reads of their services."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

from bench.fill import fill
from bench.machine import resident
from bench.measure import Bench, Line, Target, rates
from bench.servers import Windlass, windlass

_CLONED, _MANY, _FEW = 50, 500, 100
_VARIABLES = 5
_LISTED = 1000
_PAGES = 200
_NUMBERS = itertools.count(1)
_SETTINGS = {
    "deployment.termination_grace_period_seconds": 30,
    "deployment.update_strategy.type": "Recreate",
    "network.ingress.proxy_body_size_mb": 8,
    "network.ingress.enable_cors": True,
    "network.ingress.whitelist_source_range": "10.0.0.0/8",
    "network.gateway_api.retry.num_retries": 2,
    "windlass.compression.enable": True,
    "windlass.access_log.format": "json",
}


def run(bench: Bench) -> list[Line]:
    with windlass(bench.folder / "environments") as server:
        lines = [*_clones(bench, server), *_whole(bench, server), _settings(bench, server)]
    return [*lines, _long_list(bench)]


def _clones(bench: Bench, server: Windlass) -> list[Line]:
    environment = _environment(server)
    for service in _containers(server, environment, _CLONED):
        for number in range(_VARIABLES):
            body = {"key": f"KEY_{number}", "value": "a value of usual length"}
            server.ask("POST", f"/container/{service}/environmentVariable", body)
    path, names = f"/environment/{environment}", iter(range(10_000))

    def copied(verb: str) -> Callable[[], float]:
        return lambda: _seconds(server, "POST", f"{path}/{verb}", {"name": f"copy-{next(names)}"})

    found = bench.timed({"clone": copied("clone"), "preview": copied("clonePreview")})
    what = f"of an environment of {_CLONED} services with {_VARIABLES} variables each"
    return [
        Line(what=f"a clone {what}", unit="ms", ours=_ms(found["clone"]), target=Target(1000, "≤", "ms")),
        Line(
            what=f"its preview {what}", unit="ms", ours=_ms(found["preview"]), target=Target(1000, "≤", "ms")
        ),
    ]


def _whole(bench: Bench, server: Windlass) -> list[Line]:
    few, many = _environment(server), _environment(server)
    for environment, count in ((few, _FEW), (many, _MANY)):
        _containers(server, environment, count)
    status = bench.timed({"many": lambda: _seconds(server, "GET", f"/environment/{many}/status", None)})
    stages = bench.timed(
        {"many": lambda: _seconds(server, "GET", f"/environment/{many}/statusesWithStages", None)}
    )

    def deploy(environment: str, count: int) -> float:
        seconds = _seconds(server, "POST", f"/environment/{environment}/deploy", {}) / count
        while server.ask("GET", f"/environment/{environment}/deploymentQueue")["results"]:
            time.sleep(0.2)  # what runs would disturb the next request
        return seconds

    asked = bench.timed({"few": lambda: deploy(few, _FEW), "many": lambda: deploy(many, _MANY)}, rounds=3)
    return [
        Line(
            what=f"the status of an environment of {_MANY} services",
            unit="ms",
            ours=_ms(status["many"]),
            target=Target(5, "≤", "ms"),
        ),
        Line(what="the same by stage, with each service", unit="ms", ours=_ms(stages["many"])),
        Line(
            what=f"a service of {_MANY} that one request deploys in stages, against one of {_FEW}",
            unit="ms",
            ours=_ms(asked["many"]),
            limit=_ms(asked["few"]),
            target=Target(1.5, "≤"),
        ),
    ]


def _settings(bench: Bench, server: Windlass) -> Line:
    environment = _environment(server)
    plain, changed = _containers(server, environment, 2)
    path = f"/container/{changed}/advancedSettings"
    server.ask("PUT", path, server.ask("GET", path) | _SETTINGS)
    requests = {name: (server, [server.get(f"/container/{id}")]) for name, id in
                (("changed", changed), ("plain", plain))}  # fmt: skip
    found = bench.saturated(requests)
    return Line(
        what=f"reads of a service with {len(_SETTINGS)} changed advanced settings, against one without",
        unit="/s",
        ours=rates(found["changed"]),
        limit=rates(found["plain"]),
        target=Target(0.95, "≥"),
    )


def _long_list(bench: Bench) -> Line:
    folder = bench.folder / "long"
    fill(folder, bench.effort.many)
    with windlass(folder) as server:
        server.raw("GET", server.page(1, _LISTED))
        before = resident(server.pid)
        pages = bench.effort.many // _LISTED
        for number in range(_PAGES):
            server.raw("GET", server.page(1 + number * pages // _PAGES, _LISTED))
        grown = resident(server.pid) - before
    return Line(
        what=f"memory after {_PAGES} pages of {_LISTED} out of {bench.effort.many:,}, above that after one",
        unit="MiB",
        ours=[grown],
        target=Target(64, "≤", "MiB"),
    )


def _environment(server: Windlass) -> str:
    project = server.ask("POST", f"/organization/{server.org}/project", {"name": f"bench {next(_NUMBERS)}"})[
        "id"
    ]
    return str(server.ask("POST", f"/project/{project}/environment", {"name": "bench"})["id"])


def _containers(server: Windlass, environment: str, count: int) -> list[str]:
    made = []
    for number in range(count):
        body = {"name": f"service {number}", "image_name": "example/web", "tag": "1"}
        made.append(str(server.ask("POST", f"/environment/{environment}/container", body)["id"]))
    return made


def _seconds(server: Windlass, method: str, path: str, body: object) -> float:
    began = time.perf_counter()
    server.ask(method, path, body)
    return time.perf_counter() - began


def _ms(seconds: list[float]) -> list[float]:
    return [1000 * one for one in seconds]
