"""The rules of a service's public routes, from its advanced settings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from windlass.control.context.context import Context
from windlass.core.settings.checks import headers_of, words_of
from windlass.core.settings.values import AdvancedValues
from windlass.engines.workload import Workload
from windlass.routers.rules import NO_RULES, Login, RouteCors, RouteRules, digest_of

_MEBIBYTE: Final = 1024 * 1024
_SHA: Final = "{SHA}"
_HASHED: Final = re.compile(r"[^:]+:\{SHA\}")
_OTHER_HASH: Final = re.compile(r"\$|\{[A-Z0-9]+\}")
"""Matches the beginning of a hash in a form that is not supported. Nobody has such a password."""
_INGRESS: Final = "network.ingress."
MOST_LOGINS: Final = 100
"""Number of logins of a service. The gateway, which all services share, keeps them."""
MOST_BYTES_OF_LOGIN: Final = 700
"""Size of a user name with its password. The gateway refuses headers above 1 KiB."""


class PublicRules(Struct, frozen=True):
    rules: RouteRules = NO_RULES
    redirect: bool = True
    """Whether requests by HTTP are redirected to HTTPS."""


_USUAL: Final = PublicRules()


async def public_rules(ctx: Context, workload: Workload) -> PublicRules:
    """Returns the rules of the public routes of a workload, from the present settings of its service."""
    row = await ctx.store.reads.resources.get(workload.service)
    settings = AdvancedValues(row.body if row else b"")
    if not settings:
        return _USUAL
    allowed = settings.changed(f"{_INGRESS}whitelist_source_range")
    name = settings[f"{_INGRESS}basic_auth_env_var"]
    return PublicRules(
        RouteRules(
            allowed=tuple(words_of(allowed or "")),
            denied=tuple(words_of(settings[f"{_INGRESS}denylist_source_range"])),
            needs_login=bool(name),
            logins=tuple(_logins(ctx, workload, name)) if name else (),
            body_bytes=settings[f"{_INGRESS}proxy_body_size_mb"] * _MEBIBYTE,
            answer_seconds=_answer_seconds(settings),
            cors=_cors(settings),
            headers=tuple(headers_of(settings[f"{_INGRESS}extra_headers"]).items()),
        ),
        settings[f"{_INGRESS}force_ssl_redirect"],
    )


def _answer_seconds(settings: AdvancedValues) -> int:
    limits = (
        settings[f"{_INGRESS}proxy_read_timeout_seconds"],
        settings["network.gateway_api.http_request_timeout_seconds"],
    )
    return min((limit for limit in limits if limit), default=0)


def _cors(settings: AdvancedValues) -> RouteCors | None:
    if not settings[f"{_INGRESS}enable_cors"]:
        return None
    return RouteCors(
        tuple(words_of(settings[f"{_INGRESS}cors_allow_origin"])),
        settings[f"{_INGRESS}cors_allow_methods"],
        settings[f"{_INGRESS}cors_allow_headers"],
    )


def _logins(ctx: Context, workload: Workload, name: str) -> list[Login]:
    """Returns the logins of a variable: `USER:PASSWORD`, one a line; with hashes only, also separated by
    commas. Of several with one user, the first counts. The salt stays the same, so that unchanged routes are
    not sent again."""
    logins: dict[str, Login] = {}
    for user, password in _entries(workload.variables.get(name, "")):
        if len(logins) == MOST_LOGINS:
            break
        if user in logins:
            continue
        if password.startswith(_SHA):
            logins[user] = Login(user, "", password.removeprefix(_SHA))
        elif not _OTHER_HASH.match(password):
            salt = ctx.encryption.mark(b"basic auth", f"{workload.service} {user}".encode())[:32]
            logins[user] = Login(user, salt, digest_of(salt, password.encode()))
    return [*logins.values()]


def _entries(text: str) -> Iterator[tuple[str, str]]:
    for line in text.split("\n"):
        parts = [part.strip() for part in line.split(",")]
        # A password in clear may contain commas.
        for entry in parts if all(map(_HASHED.match, parts)) else [line.strip()]:
            user, colon, password = entry.partition(":")
            if user and colon and password and len(entry.encode()) <= MOST_BYTES_OF_LOGIN:
                yield user, password
