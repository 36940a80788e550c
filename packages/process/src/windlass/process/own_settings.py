"""The server settings that only the process engine uses."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from windlass.base.settings import says


class OwnProcessSettings(Struct, frozen=True, kw_only=True):
    isolation: Annotated[
        str,
        says(
            "Whether services of the process engine are kept apart: required, auto (as far as the machine "
            "allows), off",
            pattern=r"^(required|auto|off)\Z",
            after_setting="place",
        ),
    ] = "auto"
    isolation_readable: Annotated[
        tuple[str, ...],
        says(
            "Folders besides the system's that services may read, such as a compiler's",
            after_setting="isolation_users",
        ),
    ] = ()
    isolation_networks: Annotated[
        bool,
        says(
            "Whether each instance has a network of its own, where the machine allows it",
            after_setting="isolation_readable",
        ),
    ] = True
    network_allow: Annotated[
        tuple[str, ...],
        says(
            "Private networks that services may reach. A change reaches running services a few seconds after "
            "the next start",
            after_setting="share_machine",
        ),
    ] = ()
    build_cache_days: Annotated[
        int,
        says(
            "Days that the process engine keeps a build cache after a build last used it",
            ge=1,
            le=3650,
            after_setting="build_cache_bytes",
        ),
    ] = 30
    build_memory: Annotated[
        int,
        says(
            "MiB of memory for the build steps of an environment together, on the process engine; all of an "
            "organization have half as much again. 0 is half of the memory of the machine",
            ge=0,
            le=16_777_216,
            after_setting="build_cache_days",
        ),
    ] = 0
    build_processes: Annotated[
        int,
        says(
            "Processes of the build steps of an environment together, where the machine has control groups; "
            "all of an organization have half as many again",
            ge=64,
            le=1_000_000,
            after_setting="build_memory",
        ),
    ] = 4096
    toolchain_bytes: Annotated[
        int,
        says(
            "Bytes of fetched toolchains that are kept; the least recently used go first",
            ge=0,
            after_setting="toolchain_downloads",
        ),
    ] = 10 * 1024 * 1024 * 1024
    toolchain_days: Annotated[
        int,
        says(
            "Days that a fetched toolchain is kept after a build last used it",
            ge=1,
            le=3650,
            after_setting="toolchain_bytes",
        ),
    ] = 90
