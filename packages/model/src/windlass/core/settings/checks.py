"""Checks of values that a type cannot express, such as a list of networks in one text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Final

import msgspec

from windlass.base.lazy import lazy_pattern
from windlass.core.declare.resource import clash

_HEADER_PATTERN: Final = lazy_pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}\Z")
_VALUE_PATTERN: Final = lazy_pattern(r"[\t -~\x80-\U0010ffff]{0,4000}\Z")
_ENVIRONMENT_PATTERN: Final = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_.-]{0,254}\Z")
_STATUSES_PATTERN: Final = lazy_pattern(r"[1-5][0-9][0-9]\Z")
_RESERVED_HEADERS: Final = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "content-range",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
ACTING_FAILURES: Final = frozenset(
    {
        "5xx",
        "connect-failure",
        "gateway-error",
        "refused-stream",
        "reset",
        "retriable-4xx",
        "retriable-status-codes",
    }
)
_RETRY_FAILURES: Final = ACTING_FAILURES | {
    "cancelled",
    "deadline-exceeded",
    "envoy-ratelimited",
    "http3-post-connect-failure",
    "internal",
    "reset-before-request",
    "resource-exhausted",
    "retriable-headers",
    "unavailable",
}
"""The words of Envoy's `retry_on`. Those that have no effect here are accepted, for clients that send
them."""
MAX_NETWORKS: Final = 1000
MAX_HEADERS: Final = 100


def check_values(changed_fields: Mapping[str, Any]) -> None:
    """Raises Invalid for the first value of a wrong form."""
    for name, value in changed_fields.items():
        for ending, check in _SETTING_CHECKS.items():
            if name.endswith(ending) and value is not None:
                try:
                    check(value)
                except ValueError as error:
                    raise clash(name, str(error)) from error


def words_of(text: str) -> list[str]:
    """Returns the words of a text that commas separate."""
    return [word for part in text.split(",") if (word := part.strip())]


def networks_of(text: str) -> list[IPv4Network | IPv6Network]:
    words = words_of(text)
    if not words:  # a list without networks would be open to everybody
        raise ValueError("name a network such as 10.0.0.0/8, or leave the setting out")
    if len(words) > MAX_NETWORKS:
        raise ValueError(f"name at most {MAX_NETWORKS} networks")
    networks = []
    for word in words:
        try:
            networks.append(ip_network(word, strict=False))
        except ValueError as error:
            raise ValueError(f"{word} is no network such as 10.0.0.0/8 or 2001:db8::/32") from error
    return networks


def headers_of(text: str) -> dict[str, str]:
    """Returns the headers of a JSON object."""
    try:
        headers = msgspec.json.decode(text or "{}", type=dict[str, str])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ValueError('must be a JSON object of texts, such as {"X-Frame-Options": "DENY"}') from error
    if len(headers) > MAX_HEADERS:
        raise ValueError(f"name at most {MAX_HEADERS} headers")
    for header, value in headers.items():
        if not _HEADER_PATTERN.match(header) or not _VALUE_PATTERN.match(value):
            raise ValueError(f"{header!r} is no header with a value of one line")
        if header.lower() in _RESERVED_HEADERS:
            raise ValueError(f"leave out {header}: the gateway sets it itself")
    return headers


def statuses_of(text: str) -> list[int]:
    words = words_of(text)
    if wrong := next((word for word in words if not _STATUSES_PATTERN.match(word)), ""):
        raise ValueError(f"{wrong} is no status such as 503")
    return [int(word) for word in words]


def failures_of(text: str) -> list[str]:
    """Returns the failures after which a request is tried again, in the words of Envoy."""
    words = words_of(text)
    if wrong := next((word for word in words if word not in _RETRY_FAILURES), ""):
        known = ", ".join(sorted(ACTING_FAILURES))
        raise ValueError(f"{wrong} is no failure such as {known}")
    return words


def _check_one_line(text: str) -> None:
    if not _VALUE_PATTERN.match(text):
        raise ValueError("must be one line of at most 4000 characters")


def _check_variable(text: str) -> None:
    if not _ENVIRONMENT_PATTERN.match(text):
        raise ValueError("must be the name of a variable, such as SITE_USERS")


_SETTING_CHECKS: Final[Mapping[str, Callable[[str], object]]] = {
    "source_range": networks_of,
    "extra_headers": headers_of,
    "http_status_codes": statuses_of,
    "retry_on": failures_of,
    "cors_allow_origin": _check_one_line,
    "cors_allow_methods": _check_one_line,
    "cors_allow_headers": _check_one_line,
    "basic_auth_env_var": _check_variable,
}
