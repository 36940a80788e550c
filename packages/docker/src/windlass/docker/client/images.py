"""Images on the engine: lookup, pull and push."""

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
from windlass.docker.client.disk_room import keeping_reserve
from windlass.docker.client.engine_memory import PAUSED_REASON, TOO_MUCH, limited_memory
from windlass.engines.image_names import is_digest
from windlass.engines.registries import RegistryLogin

ENGINE_SILENCE_TIMEOUT: Final = 600.0
"""Maximum seconds without data from the engine during a pull or push."""
RESOLVE_TIMEOUT: Final = 30.0
"""Time limit for a registry to resolve a tag, in seconds. Other deployments may have to wait meanwhile."""
REGISTRY_SILENCE_TIMEOUT: Final = 300.0
"""Maximum seconds without data from a registry during a pull. Other deployments may have to wait
meanwhile."""
MIN_PULL_BYTES_PER_SECOND: Final = 64 * 1024
"""Minimum speed of a pull in bytes per second, for all layers together. The engine downloads only a few
layers at a time, so a slow pull delays all others."""
SPEED_PERIOD_SECONDS: Final = 120.0
"""Period in seconds over which the speed is measured."""
MAX_CONFIGURATION_BYTES: Final = 512 * 1024
"""Maximum size of an image's stored configuration, in bytes."""
TOO_SLOW_REASON: Final = "the registry sends too slowly"
TOO_LONG_REASON: Final = "the image says too much of itself"


_PUSHED_PATTERN: Final = re.compile(r"[\w.-]{1,128}: digest: (?P<digest>sha256:[0-9a-f]{64}) size: [0-9]+\Z")
"""The last message of a push."""


async def image(docker: Docker, ref: str) -> dict[str, Any] | None:
    """Returns the engine's metadata of an image; None if the engine does not have the image."""
    try:
        return dict(await docker.json("GET", f"/images/{ref}/json"))
    except EngineRefused as refused:
        if refused.status == 404:
            return None
        raise


def registry_auth(login: RegistryLogin | None) -> Mapping[str, str]:
    """Returns the request headers with a registry login."""
    if login is None:
        return {}
    document = json.dumps({"username": login.username, "password": login.password})
    return {"X-Registry-Auth": base64.urlsafe_b64encode(document.encode()).decode()}


async def ask_registry(docker: Docker, ref: str, login: RegistryLogin | None = None) -> str:
    """Returns the digest of an image in its registry. The engine sends the request, because its network
    determines which registries are reachable. Raises EngineRefused with the reason."""
    try:
        async with asyncio.timeout(RESOLVE_TIMEOUT), limited_memory(docker):
            answer = await docker.json("GET", f"/distribution/{ref}/json", auth=registry_auth(login))
    except TimeoutError as error:  # the registry does not answer, but the engine does
        raise EngineRefused(504, "timed out") from error
    digest = str((answer.get("Descriptor") or {}).get("digest", ""))
    if not is_digest(digest):
        raise EngineRefused(404, "manifest unknown")
    return digest


async def pull(docker: Docker, ref: str, login: RegistryLogin | None = None) -> None:
    """Pulls an image from the registry in its name. Raises EngineRefused with the reason."""
    # Without a tag, the engine would pull all tags.
    params = {"fromImage": ref if has_tag(ref) else f"{ref}:latest"}
    auth = registry_auth(login)
    now = asyncio.get_running_loop().time
    speed = _PullSpeed(now())
    try:
        async with (
            asyncio.timeout(REGISTRY_SILENCE_TIMEOUT) as limit,
            keeping_reserve(docker),
            limited_memory(docker),
            docker.stream(
                "POST", "/images/create", params=params, timeout=ENGINE_SILENCE_TIMEOUT, auth=auth
            ) as answer,
        ):
            async for message in answer.objects():
                limit.reschedule(speed.take(message, now()))
                if "error" in message:
                    raise EngineRefused(404, str(message["error"]))
    except TimeoutError as error:  # the registry does not answer, but the engine does
        raise EngineRefused(504, TOO_SLOW_REASON if speed.is_loading else "timed out") from error
    await _refuse_long(docker, ref)


async def _refuse_long(docker: Docker, ref: str) -> None:
    """Removes a newly pulled image, and raises EngineRefused, if its metadata is too long: the engine reads
    the metadata of all images for each list."""
    try:
        described, _ = [await docker.json("GET", f"/images/{ref}/{part}") for part in ("json", "history")]
        if (
            not docker.is_elsewhere
            and await _stored_size(docker, str(described["Id"])) > MAX_CONFIGURATION_BYTES
        ):
            raise AnswerTooLong(TOO_LONG_REASON)
    except AnswerTooLong as error:
        await docker.raw("DELETE", f"/images/{ref}")
        raise EngineRefused(413, TOO_LONG_REASON) from error
    except EngineRefused as refused:
        if refused.status != 404:
            raise


async def _stored_size(docker: Docker, id: str) -> int:
    """Returns the size of an image's configuration as stored by a local engine, including fields that the API
    does not report; 0 if the file is not accessible."""
    info = await docker.json("GET", "/info")
    stored = Path(info["DockerRootDir"]) / "image" / info["Driver"] / "imagedb/content" / id.replace(":", "/")
    try:
        return int((await in_thread(stored.stat)).st_size)
    except OSError:
        return 0


class _PullSpeed:
    """Computes when to cancel a slow pull, so that a slow registry does not delay all pulls."""

    def __init__(self, now: float) -> None:
        self._layers: dict[str, int] = {}
        self._loading: set[str] = set()
        self._now, self._spent, self._before = now, 0.0, 0

    @property
    def is_loading(self) -> bool:
        return bool(self._loading)

    def take(self, message: Mapping[str, Any], now: float) -> float:
        """Records a progress message. Returns the time at which the pull is cancelled if no further progress
        follows. Time spent waiting for other pulls is not counted."""
        self._spent += now - self._now if self.is_loading else 0
        self._now = now
        layer, loaded = str(message.get("id", "")), (message.get("progressDetail") or {}).get("current")
        if message.get("status") == "Downloading" and isinstance(loaded, int):
            self._loading.add(layer)
            self._layers[layer] = max(loaded, self._layers.get(layer, 0))
        else:
            self._loading.discard(layer)
        total = sum(self._layers.values())
        if total - self._before >= MIN_PULL_BYTES_PER_SECOND * SPEED_PERIOD_SECONDS:
            self._spent, self._before = 0, total
        return now + (SPEED_PERIOD_SECONDS - self._spent if self.is_loading else REGISTRY_SILENCE_TIMEOUT)


async def push(docker: Docker, ref: str, login: RegistryLogin | None = None) -> str:
    """Pushes an image to the registry in its name. Returns its digest there, which the engine has computed
    from what it has sent. Raises EngineRefused with the reason."""
    name, _, tag = ref.rpartition(":")
    path = f"/images/{name}/push"
    auth = registry_auth(login or RegistryLogin("", ""))  # the engine requires a login header for a push
    async with docker.stream(
        "POST", path, params={"tag": tag}, timeout=ENGINE_SILENCE_TIMEOUT, auth=auth
    ) as answer:
        digest = ""
        async for message in answer.objects():
            if "error" in message:
                raise EngineRefused(502, str(message["error"]))
            if match := _PUSHED_PATTERN.match(str(message.get("status", ""))):
                digest = match["digest"]
    if not digest:
        raise EngineRefused(502, "the Docker engine does not say which digest it has pushed")
    return digest


_UNREACHABLE_ERRORS: Final = (
    r"no such host|connection refused|timeout|timed out|deadline|unreachable|no route|connection reset"
    r"|EOF|server misbehaving|exceeded|temporary failure"
)
_RATE_LIMIT_ERRORS: Final = (
    r"toomanyrequests|too many requests|rate limit|http (response|status): 429|http 429"
)

# Patterns of the engine's pull errors, and their remedies. The first matching entry is used.
_PULL_ERRORS: Final = (
    (
        _RATE_LIMIT_ERRORS,
        "Deploy again later: the registry of {ref} allows no more pulls for now",
    ),
    (
        # The engine quotes the unexpected answer, which may be from any program in its network.
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
        TOO_LONG_REASON,
        "Use an image with a shorter configuration and history than {ref}: they may have 512 KiB",
    ),
    (
        PAUSED_REASON,
        "Deploy {ref} again within the hour: the Docker engine needed too much memory for other images of "
        "this organization",
    ),
    (
        TOO_MUCH,
        "Take {ref} from another registry, or deploy again: the Docker engine needs too much memory for what "
        "its registry says of it",
    ),
    (
        TOO_SLOW_REASON,
        "Deploy again later, or take {ref} from a faster registry: it sends less than 64 KiB a second",
    ),
    (
        r"no space left",
        "Ask the operator for space: the disk of the Docker engine is full, {ref} is not pulled",
    ),
    (
        _UNREACHABLE_ERRORS,
        "Check the host of {ref}, or ask the operator to let the Docker engine reach it: its registry does "
        "not answer",
    ),
)


def is_undecided(message: str) -> bool:
    """Returns whether the failure leaves open whether the image exists: the registry is unavailable, or
    limits requests."""
    return _pull_error_reason(message)[0] in (_UNREACHABLE_ERRORS, _RATE_LIMIT_ERRORS)


def why_not_pulled(ref: str, message: str, *, has_login: bool = False) -> str:
    """Returns the remedy for a failed pull. Omits the engine's own message where possible, because it
    contains addresses of the engine's network."""
    how = "with the login of its registry" if has_login else "without a password"
    if words := _pull_error_reason(message)[1]:
        return words.format(ref=ref, tag=ref.rpartition(":")[2], how=how)
    return f"Check the name and the tag of the image: {ref} cannot be pulled: {message}"


def _pull_error_reason(message: str) -> tuple[str, str]:
    """Returns the first matching entry of `_PULL_ERRORS`; two empty texts if none matches."""
    fitting = (reason for reason in _PULL_ERRORS if re.search(reason[0], message, re.IGNORECASE))
    return next(fitting, ("", ""))


def has_digest(ref: str) -> bool:
    return "@" in ref


def has_tag(ref: str) -> bool:
    """Returns whether an image name has a tag or digest. The name `host:5000/shop` has neither."""
    return has_digest(ref) or ":" in ref.rpartition("/")[2]
