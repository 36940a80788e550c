"""Reads deliveries of container registries: the pushed tags of images. Pure.

A delivery is only a hint, as the registry is asked for the tag before anything is deployed. So a form is
recognized by its fields, and whatever is not the name of an image or a tag is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

from msgspec import Struct, field

from windlass.base.foreign_json import BadJson, payload_of_form, read_json

MAX_PUSHED_TAGS: Final = 50
"""The number of tags of one delivery that are read."""
_MAX_LOOKED_AT: Final = 10 * MAX_PUSHED_TAGS
"""The number of tags of one delivery that are looked at."""
_PART_PATTERN: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE_PATTERN: Final = re.compile(rf"(?=.{{1,255}}\Z){_PART_PATTERN}(?:/{_PART_PATTERN})*\Z")
_TAG_PATTERN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\Z")
_DIGEST_PATTERN: Final = re.compile(r"sha256:[0-9a-f]{64}\Z")
_WORD_PATTERN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 :_.{}-]{0,99}\Z")
_DELIVERY_ID_HEADERS: Final = (
    b"x-forgejo-delivery",
    b"x-gitea-delivery",
    b"x-github-delivery",
    b"idempotency-key",
)
_GITEA_EVENTS: Final = (b"x-forgejo-event", b"x-gitea-event")
_GITHUB_EVENT: Final = b"x-github-event"
_CONTAINER_PACKAGE_TYPE: Final = "container"
_PUSH_ACTIONS: Final = {"push", "published", "updated", "created"}
_HARBOR_PUSHES: Final = {"PUSH_ARTIFACT", "harbor.artifact.pushed", "pushImage"}
_HARBOR_TEST: Final = "TEST_ENDPOINT"


class ImageEvent(Enum):
    PUSH = auto()
    PING = auto()
    OTHER = auto()


class PushedTag(NamedTuple):
    image: str
    """The name relative to the registry."""
    tag: str
    digest: str = ""


class ImageDelivery(NamedTuple):
    sender: str
    """The form of the delivery; empty if it is unknown."""
    event: ImageEvent
    id: str
    tags: Sequence[PushedTag] = ()


class _HubPush(Struct):
    tag: str = ""


class _HubRepository(Struct):
    repo_name: str = ""


class _HarborResource(Struct):
    digest: str = ""
    tag: str = ""


class _HarborRepository(Struct):
    repo_full_name: str = ""


class _HarborData(Struct):
    resources: list[_HarborResource] = []
    repository: _HarborRepository = field(default_factory=_HarborRepository)


class _GitHubTag(Struct):
    name: str = ""
    digest: str = ""


class _GitHubMetadata(Struct):
    tag: _GitHubTag | None = None


class _GitHubVersion(Struct):
    container_metadata: _GitHubMetadata | None = None


class _PackageOwner(Struct):
    login: str = ""


class _SentPackage(Struct):
    """A package of GitHub, or of Gitea and Forgejo."""

    name: str = ""
    namespace: str = ""
    package_type: str = ""
    type: str = ""
    package_version: _GitHubVersion | None = None
    version: str | None = None
    owner: _PackageOwner | None = None


class _PushTarget(Struct):
    repository: str = ""
    tag: str = ""
    digest: str = ""


class _RegistryEvent(Struct):
    id: str = ""
    action: str = ""
    target: _PushTarget = field(default_factory=_PushTarget)


class _SentPush(Struct):
    """The fields of all forms."""

    action: str = ""
    type: str = ""
    id: str | int | None = None
    push_data: _HubPush | None = None
    repository: _HubRepository | str | None = None
    updated_tags: list[str] | None = None
    event_data: _HarborData | None = None
    data: _HarborData | None = None
    registry_package: _SentPackage | None = None
    package: _SentPackage | None = None
    events: list[_RegistryEvent] | None = None
    target: _PushTarget | None = None
    image_name: str = ""
    tag: str = ""
    digest: str = ""


def read_image_delivery(headers: Mapping[bytes, bytes], body: bytes) -> ImageDelivery:
    id = _header(headers, *_DELIVERY_ID_HEADERS)
    if headers.get(b"content-type", b"").startswith(b"application/x-www-form-urlencoded"):
        body = payload_of_form(body)
    try:
        payload = read_json(body, _SentPush)
    except (BadJson, ValueError):
        return ImageDelivery("", ImageEvent.OTHER, id)
    sender, tags = _read(headers, payload)
    if _is_ping(headers, payload):
        return ImageDelivery(sender, ImageEvent.PING, id)
    if payload.events and not id:
        id = payload.events[0].id if _WORD_PATTERN.match(payload.events[0].id) else ""
    found = [*dict.fromkeys(_checked(tags))][:MAX_PUSHED_TAGS]
    return ImageDelivery(sender, ImageEvent.PUSH if found else ImageEvent.OTHER, id, found)


def _is_ping(headers: Mapping[bytes, bytes], payload: _SentPush) -> bool:
    return _header(headers, _GITHUB_EVENT) == "ping" or _HARBOR_TEST in {payload.type, payload.action}


def _header(headers: Mapping[bytes, bytes], *names: bytes) -> str:
    sent = next((headers[name] for name in names if headers.get(name)), b"").decode("latin-1")
    return sent if _WORD_PATTERN.match(sent) else ""


def _read(headers: Mapping[bytes, bytes], payload: _SentPush) -> tuple[str, Sequence[PushedTag]]:
    """Returns the form of a payload, and its tags as they were sent."""
    package = payload.registry_package or payload.package
    if _header(headers, *_GITEA_EVENTS):
        return "GITEA", _of_gitea(payload.action, package) if package else ()
    if _header(headers, _GITHUB_EVENT):
        return "GITHUB", _of_github(payload.action, package) if package else ()
    if payload.events is not None:
        return "DISTRIBUTION", [
            _of_target(event.target) for event in payload.events[:_MAX_LOOKED_AT] if event.action == "push"
        ]
    if data := payload.event_data or payload.data:
        name = data.repository.repo_full_name
        tags = [PushedTag(name, one.tag, one.digest) for one in data.resources[:_MAX_LOOKED_AT]]
        return "HARBOR", tags if payload.type in _HARBOR_PUSHES else ()
    if payload.push_data and isinstance(payload.repository, _HubRepository):
        return "DOCKER_HUB", [PushedTag(payload.repository.repo_name, payload.push_data.tag)]
    if payload.updated_tags is not None and isinstance(payload.repository, str):
        return "QUAY", [PushedTag(payload.repository, tag) for tag in payload.updated_tags[:_MAX_LOOKED_AT]]
    if payload.target:
        return "AZURE", [_of_target(payload.target)] if payload.action == "push" else ()
    if payload.image_name:
        return "PLAIN", [PushedTag(payload.image_name, payload.tag, payload.digest)]
    return "", ()


def _of_target(target: _PushTarget) -> PushedTag:
    return PushedTag(target.repository, target.tag, target.digest)


def _of_gitea(action: str, package: _SentPackage) -> Sequence[PushedTag]:
    if action not in _PUSH_ACTIONS or package.type != _CONTAINER_PACKAGE_TYPE or package.owner is None:
        return ()
    return [PushedTag(f"{package.owner.login}/{package.name}".lower(), package.version or "")]


def _of_github(action: str, package: _SentPackage) -> Sequence[PushedTag]:
    metadata = package.package_version.container_metadata if package.package_version else None
    if (
        action not in _PUSH_ACTIONS
        or package.package_type.lower() != _CONTAINER_PACKAGE_TYPE
        or metadata is None
    ):
        return ()
    owner = package.namespace or (package.owner.login if package.owner else "")
    tag = metadata.tag or _GitHubTag()
    return [PushedTag(f"{owner}/{package.name}".lower(), tag.name, tag.digest)]


def _checked(tags: Sequence[PushedTag]) -> Iterator[PushedTag]:
    for image, tag, digest in tags[:_MAX_LOOKED_AT]:
        if _IMAGE_PATTERN.match(image) and _TAG_PATTERN.match(tag):
            yield PushedTag(image, tag, digest if _DIGEST_PATTERN.match(digest) else "")
