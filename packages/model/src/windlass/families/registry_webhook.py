"""Pushes of images: the webhook of a container registry, and what came of each push."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from windlass.core.access import Scope
from windlass.core.declare.actions import delete, get, post
from windlass.core.declare.fields import Id, Maybe, Timestamp, absent, example, shown_once
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import Shown
from windlass.core.words.image_pushes import ImagePushResult
from windlass.families.container_registry import container_registry

_ADDRESS_EXAMPLE = "https://windlass.example.com/registry-webhook/0f9e8d7c6b5a49382716051423324150"
_SECRET_EXAMPLE = "4Kq0wXcX2yqRk1f0cSg5n9m6l8b7v3u2t1s0r9q8p7o"  # noqa: S105 (an example of the manual)


class RegistryWebhook(Shown):
    """The webhook of a container registry. All services with images of the registry share it."""

    url: Annotated[
        Maybe[str],
        Meta(description="Address that the registry sends pushes to. Missing until the webhook is made"),
        example(_ADDRESS_EXAMPLE),
    ] = absent
    warning: Annotated[
        Maybe[str],
        Meta(description="Why the registry may not reach the address"),
        example("Set public_url: http://127.0.0.1:8080 is an address of this machine alone"),
    ] = absent
    created_at: Maybe[Timestamp] = absent


class NewRegistryWebhook(RegistryWebhook):
    """The webhook of a container registry, with its new secret."""

    secret: Annotated[
        str,
        Meta(description="Key of the signatures, or value of the header Authorization"),
        shown_once(),
        example(_SECRET_EXAMPLE),
    ] = ""
    secret_url: Annotated[
        str,
        Meta(
            description="Address with the secret, for registries that send neither a signature nor a header: "
            "Docker Hub and Quay"
        ),
        shown_once(),
        example(f"{_ADDRESS_EXAMPLE}/{_SECRET_EXAMPLE}"),
    ] = ""


class ImagePush(Shown):
    """A push of an image, and what was done after it."""

    id: Id
    arrived_at: Timestamp
    sender: Annotated[str, Meta(description="Form of the delivery"), example("HARBOR")] = ""
    image_name: Annotated[str, Meta(description="Relative to the registry"), example("acme/shop")] = ""
    tag: Annotated[str, example("1.5.0")] = ""
    digest: Annotated[str, Meta(description="If the registry sent it"), example("sha256:" + "9f" * 32)] = ""
    service_id: Annotated[Maybe[Id], Meta(description="The service that it was passed on to")] = absent
    result: Annotated[str, Meta(description=f"One of {', '.join(ImagePushResult)}"), example("DEPLOYED")]
    message: Annotated[
        str, Meta(description="What was done, or why nothing was"), example("The tag is deployed")
    ]
    times: Annotated[int, Meta(description="Deliveries that this entry stands for")] = 1


_ADDRESS_DESCRIPTION = (
    "The registry sends each pushed tag to this address. Services with `auto_deploy` that run the image are "
    "deployed if it is their tag, with another image now, or a newer tag of the same form."
)

of_registries = Actions(
    container_registry,
    "Container registries",
    (
        get(
            "registryWebhook",
            RegistryWebhook,
            "Read the webhook of the registry",
            _ADDRESS_DESCRIPTION,
            suffix="/webhook",
            id="getRegistryWebhook",
        ),
        post(
            "renewRegistryWebhook",
            NewRegistryWebhook,
            "Make the webhook of the registry, with a new secret",
            f"{_ADDRESS_DESCRIPTION} The secret is shown once; a former one ends.",
            suffix="/renewWebhook",
            id="renewRegistryWebhook",
            need=Scope.ADMIN,
            status=200,
        ),
        delete(
            "removeRegistryWebhook",
            "Remove the webhook of the registry",
            "Its address ends.",
            suffix="/webhook",
            id="removeRegistryWebhook",
        ),
        get(
            "imagePush",
            list[ImagePush],
            "List the newest pushes of images",
            "Newest first, at most 100. Also deliveries to the webhook that are no push of a tag.",
            id="listImagePushes",
            paged=False,
        ),
    ),
)
