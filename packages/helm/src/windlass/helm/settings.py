"""The server settings for Helm services."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Struct

from windlass.base.settings import says

_IMAGE_PATTERN: Final = (
    r"^[a-z0-9][a-z0-9._/:-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?\Z"
)


class HelmSettings(Struct, frozen=True, kw_only=True):
    helm_image: Annotated[
        str,
        says(
            "Image with Helm 4 for engines that run images; it must be usable as the base of an image",
            after_setting="containers_url",
            pattern=_IMAGE_PATTERN,
        ),
    ] = "alpine/helm:4.3.1"
