"""Images: whether one is on the engine, and how it gets there."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from windlass.base.subprocesses import in_thread
from windlass.docker.client.answers import AnswerTooLong, EngineRefused
from windlass.docker.client.client import Docker
from windlass.docker.client.engine_memory import PAUSED, TOO_MUCH, limited_memory
from windlass.engines.image_names import is_digest
from windlass.engines.registries import RegistryLogin

PULLING: Final = 600.0
"""Seconds that an engine may be silent while it pulls or pushes."""
LOOKING: Final = 30.0
"""Seconds in which a registry resolves a tag: other deployments wait for the end of this one."""
SILENT: Final = 300.0
"""Seconds that a registry may be silent during a pull, for which other deployments may have to wait."""
LEAST: Final = 64 * 1024
"""Bytes a second of all layers of a pull together, at least: the engine loads few at a time for all."""
MEASURED: Final = 120.0
"""Seconds over which that is measured."""
LONGEST_STORED: Final = 512 * 1024
"""Maximum bytes of the configuration of an image."""
TOO_SLOW: Final = "the registry sends too slowly"
TOO_LONG: Final = "the image says too much of itself"


async def image(docker: Docker, ref: str) -> dict[str, Any] | None:
    """Returns the engine's description of an image; None if the engine does not have it."""
    try:
        return dict(await docker.json("GET", f"/images/{ref}/json"))
    except EngineRefused as refused:
        if refused.status == 404:
            return None
        raise


def registry_auth(login: RegistryLogin | None) -> Mapping[str, str]:
    """Returns headers with the registry login, which the engine uses for the pull."""
    if login is None:
        return {}
    document = json.dumps({"username": login.username, "password": login.password})
    return {"X-Registry-Auth": base64.urlsafe_b64encode(document.encode()).decode()}


async def ask_registry(docker: Docker, ref: str, login: RegistryLogin | None = None) -> str:
    """Returns the digest that a registry has for an image. The engine asks: its network decides what can be
    pulled. Raises EngineRefused with the reason."""
    try:
        async with asyncio.timeout(LOOKING), limited_memory(docker):
            answer = await docker.json("GET", f"/distribution/{ref}/json", auth=registry_auth(login))
    except TimeoutError as error:  # the engine answers: its registry does not
        raise EngineRefused(504, "timed out") from error
    digest = str((answer.get("Descriptor") or {}).get("digest", ""))
    if not is_digest(digest):
        raise EngineRefused(404, "manifest unknown")
    return digest


async def pull(docker: Docker, ref: str, login: RegistryLogin | None = None) -> None:
    """Pulls an image from the registry in its name. Raises EngineRefused with the reason."""
    # Without a tag the engine would fetch every one there is.
    params = {"fromImage": ref if has_tag(ref) else f"{ref}:latest"}
    auth = registry_auth(login)
    now = asyncio.get_running_loop().time
    speed = _PullSpeed(now())
    try:
        async with (
            asyncio.timeout(SILENT) as limit,
            limited_memory(docker),
            docker.stream("POST", "/images/create", params=params, patience=PULLING, auth=auth) as answer,
        ):
            async for message in answer.objects():
                limit.reschedule(speed.take(message, now()))
                if "error" in message:
                    raise EngineRefused(404, str(message["error"]))
    except TimeoutError as error:  # the engine answers: its registry does not
        raise EngineRefused(504, TOO_SLOW if speed.is_loading else "timed out") from error
    await _refuse_long(docker, ref)


async def _refuse_long(docker: Docker, ref: str) -> None:
    """Removes an image that was just pulled if its description is too long: for each list, the engine reads
    the descriptions of all images."""
    try:
        described, _ = [await docker.json("GET", f"/images/{ref}/{part}") for part in ("json", "history")]
        if not docker.is_elsewhere and await _stored_size(docker, str(described["Id"])) > LONGEST_STORED:
            raise AnswerTooLong(TOO_LONG)
    except AnswerTooLong as error:
        await docker.raw("DELETE", f"/images/{ref}")
        raise EngineRefused(413, TOO_LONG) from error
    except EngineRefused as refused:
        if refused.status != 404:
            raise


async def _stored_size(docker: Docker, id: str) -> int:
    """Returns the bytes of the configuration of an image, with fields that no answer tells, as an engine of
    this machine has stored it; 0 if it cannot be seen."""
    info = await docker.json("GET", "/info")
    stored = Path(info["DockerRootDir"]) / "image" / info["Driver"] / "imagedb/content" / id.replace(":", "/")
    try:
        return int((await in_thread(stored.stat)).st_size)
    except OSError:
        return 0


class _PullSpeed:
    """Computes the time at which a slow pull is cancelled, so that a slow registry does not delay all
    pulls."""

    def __init__(self, now: float) -> None:
        self._layers: dict[str, int] = {}
        self._loading: set[str] = set()
        self._now, self._spent, self._before = now, 0.0, 0

    @property
    def is_loading(self) -> bool:
        return bool(self._loading)

    def take(self, message: Mapping[str, Any], now: float) -> float:
        """Records progress, and returns the time at which the pull is cancelled without further progress.
        Time in which it waits for other pulls does not count."""
        self._spent += now - self._now if self.is_loading else 0
        self._now = now
        layer, loaded = str(message.get("id", "")), (message.get("progressDetail") or {}).get("current")
        if message.get("status") == "Downloading" and isinstance(loaded, int):
            self._loading.add(layer)
            self._layers[layer] = max(loaded, self._layers.get(layer, 0))
        else:
            self._loading.discard(layer)
        total = sum(self._layers.values())
        if total - self._before >= LEAST * MEASURED:
            self._spent, self._before = 0, total
        return now + (MEASURED - self._spent if self.is_loading else SILENT)


async def push(docker: Docker, ref: str, login: RegistryLogin | None = None) -> None:
    """Sends an image to the registry in its name. Raises EngineRefused with the reason."""
    name, _, tag = ref.rpartition(":")
    path = f"/images/{name}/push"
    auth = registry_auth(login or RegistryLogin("", ""))  # the engine refuses a push without any login
    async with docker.stream("POST", path, params={"tag": tag}, patience=PULLING, auth=auth) as answer:
        async for message in answer.objects():
            if "error" in message:
                raise EngineRefused(502, str(message["error"]))


_AWAY: Final = (
    r"no such host|connection refused|timeout|timed out|deadline|unreachable|no route|connection reset"
    r"|EOF|server misbehaving|exceeded|temporary failure"
)
_BUSY: Final = r"toomanyrequests|too many requests|rate limit|http (response|status): 429|http 429"

# Messages of the engine when an image cannot be pulled, and the remedies. The first matching entry counts.
_REASONS: Final = (
    (
        _BUSY,
        "Deploy again later: the registry of {ref} allows no more pulls for now",
    ),
    (
        # The engine repeats this answer, which may be that of any program of its network.
        r"response body|looking for beginning of value|token response|unexpected (http )?status",
        "Check the host of {ref}: another program than a registry answers the Docker engine there",
    ),
    (
        r"no matching manifest|does not match the (detected|specified|host) platform",
        "Choose another tag: {ref} has no image for the processor of this Docker engine",
    ),
    (
        r"manifest (for \S+ )?(unknown|not found)",
        "Choose another tag: the registry has the image, and no tag {tag} of it ({ref})",
    ),
    (
        r"pull access denied|repository does not exist|unauthorized|authentication required|denied|forbidden"
        r"|no basic auth credentials|incorrect username or password"
        r"|name unknown|not found",
        "Check the name of the image: the registry has no {ref} that can be pulled {how}",
    ),
    (
        r"x509|certificate|http response to https client",
        "Ask the operator to let the Docker engine trust the registry of {ref}: its certificate is refused",
    ),
    (
        TOO_LONG,
        "Use an image with a shorter configuration and history than {ref}: they may have 512 KiB",
    ),
    (
        PAUSED,
        "Deploy {ref} again within the hour: the Docker engine needed too much memory for other images of "
        "this organization",
    ),
    (
        TOO_MUCH,
        "Take {ref} from another registry, or deploy again: the Docker engine needs too much memory for what "
        "its registry says of it",
    ),
    (
        TOO_SLOW,
        "Deploy again later, or take {ref} from a faster registry: it sends less than 64 KiB a second",
    ),
    (
        r"no space left",
        "Ask the operator for space: the disk of the Docker engine is full, {ref} is not pulled",
    ),
    (
        _AWAY,
        "Check the host of {ref}, or ask the operator to let the Docker engine reach it: its registry does "
        "not answer",
    ),
)


def is_undecided(message: str) -> bool:
    """Returns whether it is unknown whether a registry has an image: it is unavailable, or limits
    requests."""
    return _reason(message)[0] in (_AWAY, _BUSY)


def why_not_pulled(ref: str, message: str, *, has_login: bool = False) -> str:
    """Returns the remedy for the user. What the engine says itself names addresses of its network."""
    how = "with the login of its registry" if has_login else "without a password"
    if words := _reason(message)[1]:
        return words.format(ref=ref, tag=ref.rpartition(":")[2], how=how)
    return f"Check the name and the tag of the image: {ref} cannot be pulled: {message}"


def _reason(message: str) -> tuple[str, str]:
    """Returns the first reason that fits, and two empty texts if none does."""
    fitting = (reason for reason in _REASONS if re.search(reason[0], message, re.IGNORECASE))
    return next(fitting, ("", ""))


def has_digest(ref: str) -> bool:
    return "@" in ref


def has_tag(ref: str) -> bool:
    """Returns whether a name has a tag; `host:5000/shop` has none."""
    return has_digest(ref) or ":" in ref.rpartition("/")[2]
