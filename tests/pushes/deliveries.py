"""Deliveries as git servers send them, from their published documentation."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tests.world import Answer, World


class Address(NamedTuple):
    """The webhook of a repository, as it was entered at the git server."""

    path: str
    secret: str


async def webhook(world: World, service: str) -> Address:
    answer = await world.post(f"/service/{service}/gitWebhook")
    assert answer.status == 200, answer
    return Address("/git-webhook/" + answer["url"].rpartition("/")[2], answer["secret"])


def digest(secret: str, body: bytes) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def github(secret: str, body: bytes, event: str = "push", delivery: str = "") -> dict[str, str]:
    headers = {"x-github-event": event, "x-hub-signature-256": f"sha256={digest(secret, body)}"}
    return headers | ({"x-github-delivery": delivery} if delivery else {})


def gitea(secret: str, body: bytes) -> dict[str, str]:
    signature = digest(secret, body)
    return {
        "x-gitea-event": "push",
        "x-gitea-signature": signature,
        "x-github-event": "push",
        "x-hub-signature-256": f"sha256={signature}",
        "x-gitea-delivery": "b1",
    }


def forgejo(secret: str, body: bytes) -> dict[str, str]:
    return {"x-forgejo-event": "push", "x-forgejo-signature": digest(secret, body)}


def gitlab(secret: str, body: bytes) -> dict[str, str]:
    return {"x-gitlab-event": "Push Hook", "x-gitlab-token": secret, "x-gitlab-event-uuid": "c1"}


def bitbucket(secret: str, body: bytes) -> dict[str, str]:
    return {"x-event-key": "repo:push", "x-hub-signature": f"sha256={digest(secret, body)}"}


def push(commit: str, branch: str = "main", **more: Any) -> bytes:
    """The body of GitHub, Gitea and Forgejo; GitLab's differs in what is not read."""
    return json.dumps({"ref": f"refs/heads/{branch}", "before": "0" * 40, "after": commit} | more).encode()


def bitbucket_push(commit: str, branch: str = "main") -> bytes:
    new = {"type": "branch", "name": branch, "target": {"hash": commit, "type": "commit"}}
    return json.dumps({"push": {"changes": [{"new": new, "old": None}]}}).encode()


def as_form(body: bytes) -> bytes:
    return urlencode({"payload": body.decode()}).encode()


async def send(world: World, to: Address, body: bytes, **options: Any) -> Answer:
    """A delivery of GitHub."""
    headers: Mapping[str, str] = options.pop("headers", None) or github(to.secret, body, **options)
    return await world.call("POST", to.path, raw=body, headers=headers, token=None)


async def pushes(world: World, service: str) -> list[Any]:
    """The account of a service, newest first."""
    return list((await world.get(f"/service/{service}/gitPush"))["results"])


async def results(world: World, service: str) -> list[str]:
    return [entry["result"] for entry in await pushes(world, service)]
