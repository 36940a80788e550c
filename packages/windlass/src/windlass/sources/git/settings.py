"""The environment for git, with all its settings. It inherits no variables of the server except PATH.

Settings are passed as variables, because every user of a machine can read the arguments of a process, and a
configuration file could be left behind.
"""

from __future__ import annotations

import base64
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from windlass.base.addresses import Address
from windlass.sources.git.source import RemoteAddress

# Some of these are defaults of git, and git reads no other settings. Protection must not depend on one
# measure alone.
HARDENED_SETTINGS: Final = {
    "core.hooksPath": "/dev/null",
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "core.fsmonitor": "false",
    "core.symlinks": "true",
    "core.bigFileThreshold": "32m",  # larger files are streamed instead of loaded into memory
    "core.fsync": "none",  # a copy that is damaged by a crash is fetched again
    "credential.helper": "",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "fetch.fsckObjects": "true",
    # Harmless errors in the history of many well-known repositories.
    "fetch.fsck.zeroPaddedFilemode": "warn",
    "fetch.fsck.badTimezone": "warn",
    "fetch.fsck.missingSpaceBeforeDate": "warn",
    "fetch.unpackLimit": "1",  # store one pack instead of many loose files
    "gc.auto": "0",
    "maintenance.auto": "false",  # it would continue in the background
    "pack.threads": "1",
    "protocol.allow": "never",  # except for the protocol in GIT_ALLOW_PROTOCOL
    "protocol.ext.allow": "never",
    "transfer.bundleURI": "false",
    "http.followRedirects": "false",  # prevents `http-alternates` too, which refer to other hosts
    "http.sslVerify": "true",
    "http.proxy": "",
    "log.showSignature": "false",
}

SSH_OPTIONS: Final = (
    "BatchMode=yes",
    "StrictHostKeyChecking=accept-new",
    "GlobalKnownHostsFile=/dev/null",
    "UpdateHostKeys=no",
    "CheckHostIP=no",
    "CanonicalizeHostname=no",
    "IdentityFile=none",
    "IdentityAgent=none",
    "IdentitiesOnly=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "ProxyCommand=none",
    "ProxyJump=none",
    "ControlMaster=no",
    "ControlPath=none",
    "ConnectTimeout=30",
    "ServerAliveInterval=30",
)


def environment(
    remote_address: RemoteAddress | None,
    pinned: Sequence[Address],
    home: Path,
    header: str = "",
    extra_options: Sequence[tuple[str, str]] = (),
) -> dict[str, str]:
    variables = {
        "PATH": os.pathsep.join(os.get_exec_path()),
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(home.parent),  # no search in parent folders
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": remote_address.scheme if remote_address else "none",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
    }
    settings = list(HARDENED_SETTINGS.items())
    if remote_address and remote_address.scheme == "ssh":
        variables |= {"GIT_SSH_COMMAND": ssh(remote_address, pinned[0], home), "GIT_SSH_VARIANT": "ssh"}
    elif remote_address and remote_address.scheme in ("http", "https"):
        settings += _over_http(remote_address, pinned, header)
    return variables | _as_variables([*settings, *extra_options])


def authorization(token: str, host: str) -> str:
    """Returns the `Authorization` header for a token.

    A personal token accepts any user name. Other kinds of tokens need a user name that depends on the host.
    """
    names = {"gitlab": "oauth2", "bitbucket": "x-token-auth"}
    user = next((name for part, name in names.items() if part in host), "x-access-token")
    pair = token if ":" in token else f"{user}:{token}"
    return f"Authorization: Basic {base64.b64encode(pair.encode(errors='replace')).decode()}"


def ssh(remote_address: RemoteAddress, pinned: Address, home: Path) -> str:
    """Returns the ssh command, which connects to the checked address and stores the server's key under the
    host name."""
    known_hosts = str(home / "known_hosts").replace("%", "%%")
    host, port = remote_address.host, remote_address.port
    options = (
        *SSH_OPTIONS,
        f'UserKnownHostsFile="{known_hosts}"',
        f"HostName={pinned}",
        f"HostKeyAlias={host if port == 22 else f'[{host}]:{port}'}",
    )
    return shlex.join(["ssh", "-F", "/dev/null", *(word for option in options for word in ("-o", option))])


def _over_http(
    remote_address: RemoteAddress, pinned: Sequence[Address], header: str
) -> list[tuple[str, str]]:
    settings = []
    if isinstance(remote_address.host, str):
        addresses = ",".join(f"[{address}]" if address.version == 6 else str(address) for address in pinned)
        settings.append(("http.curloptResolve", f"{remote_address.host}:{remote_address.port}:{addresses}"))
    if header:
        settings.append((f"http.{remote_address.origin}.extraHeader", header))
    return settings


def _as_variables(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    variables = {"GIT_CONFIG_COUNT": str(len(settings))}
    for place, (key, value) in enumerate(settings):
        variables |= {f"GIT_CONFIG_KEY_{place}": key, f"GIT_CONFIG_VALUE_{place}": value}
    return variables
