"""The server settings that concern only the Docker engine."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from windlass.base.settings import says


class OwnDockerSettings(Struct, frozen=True, kw_only=True):
    docker_host: Annotated[
        str,
        says(
            "Address of the Docker engine, such as unix:///var/run/docker.sock; empty looks for it",
            after_setting="registry_password",
        ),
    ] = ""
    docker_networks: Annotated[
        str,
        says(
            "Range of the networks of environments and builds on Docker engines; one organization has an "
            "eighth of it at most. Empty: an engine takes its own, of which it has about 30",
            pattern=r"^([0-9.]{7,15}/[0-9]{1,2})?\Z",
            after_setting="docker_host",
        ),
    ] = "10.199.0.0/16"
