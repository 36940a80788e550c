"""The server settings for Terraform services."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Struct

from windlass.base.settings import says

_IMAGE_PATTERN: Final = (
    r"^[a-z0-9][a-z0-9._/:-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?\Z"
)


class TerraformSettings(Struct, frozen=True, kw_only=True):
    terraform_providers: Annotated[
        str,
        says(
            "Folder with providers for Terraform and OpenTofu, HOST/NAMESPACE/TYPE/VERSION/OS_ARCH below it; "
            "all services share it, and none can change it",
            after_setting="toolchain_days",
            is_folder_of_services=True,
        ),
    ] = ""
    terraform_image: Annotated[
        str,
        says(
            "Image with Terraform for engines that run images; other versions are taken as other tags of it",
            after_setting="terraform_providers",
            pattern=_IMAGE_PATTERN,
        ),
    ] = "hashicorp/terraform:1.11.4"
    opentofu_image: Annotated[
        str,
        says(
            "The same for OpenTofu; it must be usable as the base of an image",
            after_setting="terraform_image",
            pattern=_IMAGE_PATTERN,
        ),
    ] = "ghcr.io/opentofu/opentofu:1.9.4"
    terraform_state_bytes: Annotated[
        int,
        says(
            "Bytes that the state of a Terraform service may have",
            after_setting="containers_url",
            ge=65_536,
            le=2**30,
        ),
    ] = 16 * 1024 * 1024
    terraform_state_versions: Annotated[
        int,
        says(
            "Versions of the state that are kept for each Terraform service",
            after_setting="terraform_state_bytes",
            ge=2,
            le=10_000,
        ),
    ] = 50
