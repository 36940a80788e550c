"""All that an environment is, in the words of the API, without what each environment has of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

Read = Callable[[str], Awaitable[Any]]
"""Returns the decoded answer to a GET."""

_OWN: Final = re.compile(r"(^|_)(id|at|ids|url)$")
_OF_PLACE: Final = frozenset(
    {"environment", "project", "organization", "validation_domain", "challenge_value"}
)
_OF_DEPLOYMENTS: Final = re.compile(r"^deployed_")


async def picture(read: Read, path: str) -> dict[str, Any]:
    """`path`: that of the environment."""
    above, services = await read(path), (await read(f"{path}/services"))["results"]
    ids = {one["id"]: one["name"] for one in services}
    stages = (await read(f"{path}/deploymentStage"))["results"]
    seen: dict[str, Any] = {
        "environment": {name: above[name] for name in ("name", "mode", "cluster_id")},
        "stages": [
            (stage["name"], sorted((ids[one["service_id"]], one["is_skipped"]) for one in stage["services"]))
            for stage in stages
            if stage["services"]
        ],
    }
    levels = {"project": f"/project/{above['project']['id']}", "environment": path}
    for service in services:
        own, name = f"/{service['service_type'].lower()}/{service['id']}", service["name"]
        seen[f"settings of {name}"] = plain(await read(own), ids)
        if service["service_type"] == "DATABASE":
            del seen[f"settings of {name}"]["port"]  # of a public one, the server chooses it
        else:
            levels[name] = own
        if service["service_type"] == "APPLICATION":
            for below in ("customDomain", "deploymentRestriction", "advancedSettings"):
                seen[f"{below} of {name}"] = plain(await read(f"{own}/{below}"), ids)
    for name, level in levels.items():
        for kind in ("environmentVariable", "secret"):
            listed = (await read(f"{level}/{kind}?page_size=1000"))["results"]
            own_ones = [plain(one, ids) for one in listed if one["variable_type"] != "BUILT_IN"]
            seen[f"{kind} of {name}"] = sorted(own_ones, key=json.dumps)
    return seen


def plain(value: Any, ids: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {
            name: plain(item, ids)
            for name, item in value.items()
            if not _OWN.search(name) and not _OF_DEPLOYMENTS.search(name) and name not in _OF_PLACE
        }
    if isinstance(value, list):
        return [plain(item, ids) for item in value]
    if isinstance(value, str):
        for id, name in ids.items():
            value = value.replace(id, name).replace(id[:8], name).replace(id[:8].upper(), name)
        return value.replace("again.shop", "shop")
    return value
