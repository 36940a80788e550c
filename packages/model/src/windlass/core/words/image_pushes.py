"""The results of image pushes: what was done after a registry told of a tag, or why nothing was."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class ImagePushResult(StrEnum):
    RECEIVED = "RECEIVED"
    """The services of the image are looked at soon."""
    PASSED_ON = "PASSED_ON"
    """A delivery whose meaning for each service has a row of its own."""
    DEPLOYED = "DEPLOYED"
    PREVIEWED = "PREVIEWED"
    """A preview of the tag is deployed again."""
    ALREADY_KNOWN = "ALREADY_KNOWN"
    OTHER_TAG = "OTHER_TAG"
    NOT_RUNNING = "NOT_RUNNING"
    AUTO_DEPLOY_OFF = "AUTO_DEPLOY_OFF"
    REFUSED = "REFUSED"
    NO_SERVICE = "NO_SERVICE"
    NOT_IN_REGISTRY = "NOT_IN_REGISTRY"
    REGISTRY_FAILED = "REGISTRY_FAILED"
    PING = "PING"
    OTHER_EVENT = "OTHER_EVENT"
    WRONG_SECRET = "WRONG_SECRET"  # noqa: S105 (the name of a result)
    NO_SECRET = "NO_SECRET"  # noqa: S105 (the name of a result)


IMAGE_PUSH_SENTENCES: Final[Mapping[str, str]] = {
    ImagePushResult.RECEIVED: "The services of the image are looked at now",
    ImagePushResult.PASSED_ON: "It was passed on to the services of the image",
    ImagePushResult.DEPLOYED: "The tag is deployed",
    ImagePushResult.PREVIEWED: "The preview of the tag is deployed again",
    ImagePushResult.ALREADY_KNOWN: "Nothing is done: the service runs this image already",
    ImagePushResult.OTHER_TAG: "Not deployed: it is not the tag of the service, and no newer one",
    ImagePushResult.NOT_RUNNING: "Not deployed: the service was never deployed, or was stopped",
    ImagePushResult.AUTO_DEPLOY_OFF: "Not deployed: auto_deploy is off for this service",
    ImagePushResult.REFUSED: "Not deployed",
    ImagePushResult.NO_SERVICE: "Nothing is done: no service runs this image of the registry",
    ImagePushResult.NOT_IN_REGISTRY: "Not deployed: the registry does not have this tag",
    ImagePushResult.REGISTRY_FAILED: "Not deployed: the registry cannot be asked for the tag",
    ImagePushResult.PING: "The registry has tried the address: it works",
    ImagePushResult.OTHER_EVENT: "Nothing is done: it is no push of a tag",
    ImagePushResult.WRONG_SECRET: "Refused: the secret or signature does not match the webhook",
    ImagePushResult.NO_SECRET: "Refused: it has no secret and no signature; enter the secret at the registry",
}
