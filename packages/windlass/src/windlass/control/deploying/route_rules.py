"""The rules of a service's public routes, from its advanced settings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from windlass.control.context.context import Context
from windlass.core.settings.checks import headers_of, statuses_of, words_of
from windlass.core.settings.values import AdvancedValues
from windlass.engines.workload import Workload
from windlass.routers.rules import (
    NO_RULES,
    Login,
    RouteCors,
    RouteLog,
    RouteMaintenance,
    RouteRate,
    RouteRetry,
    RouteRules,
    RouteTimes,
    digest_of,
)

_MEBIBYTE: Final = 1024 * 1024
_SHA: Final = "{SHA}"
_SHA_LOGIN_PATTERN: Final = re.compile(r"[^:]+:\{SHA\}")
_OTHER_HASH_PATTERN: Final = re.compile(r"\$|\{[A-Z0-9]+\}")
"""Matches the beginning of a hash in a form that is not supported. Nobody has such a password."""
_INGRESS: Final = "network.ingress."
_API: Final = "network.gateway_api."
_RETRY: Final = f"{_API}retry."
_MAINTENANCE: Final = "windlass.maintenance."
_DEFAULT_FAILURES: Final = ("connect-failure", "reset", "retriable-status-codes")
_DEFAULT_STATUSES: Final = (503,)
_MAX_CONNECT_TIMEOUT, _MAX_IDLE_TIMEOUT, _DAY = 300, 3600, 86_400
"""The longest time limits of connections, in seconds: the services of a gateway share its connections."""
MAX_RETRIES: Final = 10
"""Number of retries of a request. More would hold the client for no gain."""
MAX_LOGINS: Final = 100
"""Number of logins of a service. The gateway, which all services share, keeps them."""
MAX_LOGIN_BYTES: Final = 700
"""Size of a user name with its password. The gateway refuses headers above 1 KiB."""


class PublicRules(Struct, frozen=True):
    rules: RouteRules = NO_RULES
    redirect: bool = True
    """Whether requests by HTTP are redirected to HTTPS."""
    hsts: int = 0
    """Seconds for which browsers use HTTPS only; 0 for no such header."""


_DEFAULT_RULES: Final = PublicRules()


async def public_rules(ctx: Context, workload: Workload) -> PublicRules:
    """Returns the rules of the public routes of a workload, from the current settings of its service."""
    row = await ctx.store.reads.resources.get(workload.service)
    settings = AdvancedValues(row.body if row else b"")
    if not settings:
        return _DEFAULT_RULES
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
            sticky=_sticky(ctx, workload) if settings[f"{_INGRESS}enable_sticky_session"] else "",
            retry=_retry(settings),
            times=_times(settings),
            rate=_rate(settings),
            compresses=settings["windlass.compression.enable"],
            error_page=settings["windlass.pages.error"],
            maintenance=_maintenance(settings),
            log=_log(ctx, settings),
        ),
        settings[f"{_INGRESS}force_ssl_redirect"],
        settings["windlass.hsts.max_age_seconds"],
    )


def _answer_seconds(settings: AdvancedValues) -> int:
    limits = (
        settings[f"{_INGRESS}proxy_read_timeout_seconds"],
        settings[f"{_API}http_request_timeout_seconds"],
    )
    return min((limit for limit in limits if limit), default=0)


def _sticky(ctx: Context, workload: Workload) -> str:
    return ctx.encryption.mark(b"sticky sessions", workload.service.encode())[:32]


def _retry(settings: AdvancedValues) -> RouteRetry | None:
    times = settings[f"{_RETRY}num_retries"]
    if not times:
        return None
    on, statuses = settings[f"{_RETRY}retry_on"], settings[f"{_RETRY}http_status_codes"]
    return RouteRetry(
        min(times, MAX_RETRIES),
        _DEFAULT_FAILURES if on is None else tuple(words_of(on)),
        _DEFAULT_STATUSES if statuses is None else tuple(statuses_of(statuses)),
        settings[f"{_RETRY}per_try_timeout_seconds"] or 0,
    )


def _times(settings: AdvancedValues) -> RouteTimes:
    """Returns the time limits that differ from those of the gateway."""

    def changed(name: str, limit: int = _DAY) -> int:
        return min(settings.changed(f"{_INGRESS}{name}_seconds") or 0, limit)

    envoys = settings[f"{_API}http_connection_idle_timeout_seconds"] or 0
    idle = changed("keepalive_timeout", _MAX_IDLE_TIMEOUT), min(envoys, _MAX_IDLE_TIMEOUT)
    return RouteTimes(
        connect=changed("proxy_connect_timeout", _MAX_CONNECT_TIMEOUT),
        take_request=changed("proxy_send_timeout"),
        take_answer=changed("send_timeout", _MAX_IDLE_TIMEOUT),
        idle=min((limit for limit in idle if limit), default=0),
        connection=changed("keepalive_time"),
    )


def _rate(settings: AdvancedValues) -> RouteRate | None:
    requests = settings["windlass.rate_limit.requests_per_minute"]
    burst = settings["windlass.rate_limit.burst"]
    return RouteRate(requests, min(burst or requests, requests)) if requests else None


def _log(ctx: Context, settings: AdvancedValues) -> RouteLog | None:
    form = settings["windlass.access_log.format"]
    if form == "none":
        return None
    return RouteLog(form, str(ctx.logs.folder), ctx.logs.most_access_bytes)


def _maintenance(settings: AdvancedValues) -> RouteMaintenance | None:
    if not settings[f"{_MAINTENANCE}enable"]:
        return None
    let_in = settings[f"{_MAINTENANCE}allowed_source_range"]
    return RouteMaintenance(settings[f"{_MAINTENANCE}page"], tuple(words_of(let_in)))


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
        if len(logins) == MAX_LOGINS:
            break
        if user in logins:
            continue
        if password.startswith(_SHA):
            logins[user] = Login(user, "", password.removeprefix(_SHA))
        elif not _OTHER_HASH_PATTERN.match(password):
            salt = ctx.encryption.mark(b"basic auth", f"{workload.service} {user}".encode())[:32]
            logins[user] = Login(user, salt, digest_of(salt, password.encode()))
    return [*logins.values()]


def _entries(text: str) -> Iterator[tuple[str, str]]:
    for line in text.split("\n"):
        parts = [part.strip() for part in line.split(",")]
        # A password in clear may contain commas.
        for entry in parts if all(map(_SHA_LOGIN_PATTERN.match, parts)) else [line.strip()]:
            user, colon, password = entry.partition(":")
            if user and colon and password and len(entry.encode()) <= MAX_LOGIN_BYTES:
                yield user, password
