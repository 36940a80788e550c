"""What is measured, by the name under which it is asked for and explained in README.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.cases import (
    backlog,
    commands,
    console,
    creates,
    cron,
    deploys,
    detect,
    edge,
    hello,
    https,
    idle,
    images,
    isolated,
    logs,
    mixed,
    pages,
    postgres,
    reads,
    rebuilds,
    restores,
    router,
    sites,
    start,
    terraform,
    variables,
    webhooks,
)
from bench.measure import Bench, Line

CASES: Mapping[str, Callable[[Bench], list[Line]]] = {
    "reads": reads.run,
    "pages": pages.run,
    "variables": variables.run,
    "creates": creates.run,
    "postgres": postgres.run,
    "start": start.run,
    "commands": commands.run,
    "console": console.run,
    "edge": edge.run,
    "router": router.run,
    "https": https.run,
    "sites": sites.run,
    "idle": idle.run,
    "deploys": deploys.run,
    "images": images.run,
    "detect": detect.run,
    "hello": hello.run,
    "rebuilds": rebuilds.run,
    "terraform": terraform.run,
    "isolated": isolated.run,
    "logs": logs.run,
    "webhooks": webhooks.run,
    "backlog": backlog.run,
    "cron": cron.run,
    "mixed": mixed.run,
    "restores": restores.run,
}
