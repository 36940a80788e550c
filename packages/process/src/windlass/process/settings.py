"""The settings that the process engine reads, and the isolation that follows from them."""

from __future__ import annotations

import os
from ipaddress import IPv4Network, ip_address
from pathlib import Path
from typing import cast

from windlass.base.errors import BadSetting
from windlass.base.isolation.isolation import Isolation, Mode, NetworkRules
from windlass.process.own_settings import OwnProcessSettings


class ProcessSettings(OwnProcessSettings, frozen=True, kw_only=True):
    data_dir: str
    host: str
    port: int
    gateway_host: str
    gateway_port: int
    https_port: int
    trusted_proxies: tuple[str, ...]
    proxy_protocol_from: tuple[str, ...]
    isolation_users: str
    share_machine: bool
    disk_reserve_bytes: int
    build_cache_bytes: int
    toolchain_downloads: bool
    settings_file: str = ""
    """The path of the server's settings file. Empty if there is none."""
    folders_of_services: tuple[str, ...] = ()
    """Folders that settings of other packages make readable for all services."""
    private_files: tuple[str, ...] = ()
    """Files and folders of the operator that services must not see."""

    @property
    def folder(self) -> Path:
        """The folder of the engine."""
        return Path(self.data_dir) / "run"


def isolation_of(settings: ProcessSettings) -> Isolation:
    """Returns the isolation of the process engine. Raises BadSetting if the settings require more than the
    machine supports."""
    mode = cast(Mode, settings.isolation)
    try:
        users, readable = settings.isolation_users, _readable(settings)
        isolation = Isolation(
            mode, Path(settings.data_dir), users, readable, _network_rules(settings), settings.private_files
        )
    except ValueError as error:
        raise BadSetting(f"isolation_users: {error}") from error
    missing = [part for part in isolation.missing() if part.part != "network" or settings.isolation_networks]
    if mode == "required" and missing:
        first = missing[0]
        raise BadSetting(
            f"isolation: a service would not have {first.what} on this machine ({first.why}). To continue: "
            f"{first.advice}; or use the Docker engine; or set isolation to auto"
        )
    if mode == "required" and (why := isolation.why_no_egress()):
        raise BadSetting(
            f"isolation: build steps would share the network of this machine ({why}). To continue: "
            f"{isolation.egress_advice()}; or use the Docker engine; or set isolation to auto"
        )
    return isolation


def _network_rules(settings: ProcessSettings) -> NetworkRules | None:
    if not settings.isolation_networks:
        return None
    for network in settings.network_allow:
        try:
            IPv4Network(network)
        except ValueError as error:
            raise BadSetting(
                f"network_allow: name networks such as 10.0.0.0/8: {network} is not one"
            ) from error
    # If the server listens only on the loopback address, another program may use its ports on other
    # addresses.
    places = (
        (settings.host, settings.port),
        (settings.gateway_host, settings.gateway_port),
        (settings.gateway_host, settings.https_port),
    )
    ports = tuple(port for host, port in places if port and not _is_loopback(host))
    return NetworkRules(open=tuple(settings.network_allow), ports=ports)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _readable(settings: ProcessSettings) -> tuple[str, ...]:
    """Returns the folders that services may read in addition to the system's folders."""
    shared = (str(Path(folder).resolve()) for folder in settings.folders_of_services)
    return (*settings.isolation_readable, *shared)


def concerns(isolation: Isolation) -> list[str]:
    """Returns warnings for the operator about missing isolation."""
    if isolation.mode == "off":
        return [
            "Services are not isolated (isolation is off): they can read what Windlass can, including its key"
        ]
    missing = isolation.missing()
    warnings = []
    if missing:
        parts = "; ".join(f"{part.what} ({part.why}), so {part.means}" for part in missing)
        warnings.append(
            "Services are isolated only in part; `windlass doctor` says what to do. Here, a service does not "
            f"have {parts}"
        )
    if why := isolation.why_no_egress():
        warnings.append(f"Services reach no public address ({why}): {isolation.egress_advice()}")
    if os.geteuid() == 0 and "identity" in {part.part for part in missing}:
        warnings.append(
            "EVERY SERVICE RUNS AS ROOT: this machine allows neither users nor user namespaces for them. "
            "Deploy only code that you trust fully, or use the Docker engine"
        )
    return warnings
