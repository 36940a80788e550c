"""Parses the URL of an outgoing request with a strict grammar and writes it in normal form.

The client calls the normal form, so it cannot interpret the URL differently than the check.
"""

from __future__ import annotations

import re
import string
from functools import lru_cache
from ipaddress import ip_address
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from windlass.base.addresses import Address, BadHost, Reach, host
from windlass.base.http_out.answers import AddressRefused

MAX_URL_LENGTH: Final = 4096

_DEFAULT_PORTS: Final = {"https": 443, "http": 80}
_URL_PATTERN = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[^\[\]/?#@]*\]|[^\[\]/?#@:]*)(:(?P<port>[0-9]{1,5}))?"
    r"(?P<rest>[/?][^#]*)?(#.*)?",
    re.IGNORECASE,
)
_URL_WITH_USER_PATTERN = re.compile(r"https?://[^/?#]*@", re.IGNORECASE)
_SENT_AS_IT_IS = string.ascii_letters + string.digits + "-._~:/?[]@!$&'()*+,;=%"
_LOOPBACK = (ip_address("127.0.0.1"), ip_address("::1"))
_ALLOW_ADVICE = "The operator of Windlass can allow its network with the setting outbound_allow."


class Url(Struct, frozen=True):
    url: str
    """The URL in normal form, which the client calls."""
    host: str | Address
    shown: str
    """The host as shown in messages, with the port unless it is the default port."""


@lru_cache(maxsize=1024)  # the same receivers are called again and again
def parse_url(url: str) -> Url:
    if len(url) > MAX_URL_LENGTH:
        raise AddressRefused(f"The URL is longer than {MAX_URL_LENGTH} characters.")
    if not url.isprintable() or " " in url or "\\" in url:
        raise AddressRefused("The URL holds a blank, a backslash or something that is no character.")
    if _URL_WITH_USER_PATTERN.match(url):
        raise AddressRefused(
            "The URL holds a user name or a password: they would be seen wherever the URL is shown."
        )
    if not (match := _URL_PATTERN.fullmatch(url)):
        raise AddressRefused("The URL must be like https://host/path or http://host:8080/path.")
    return _build_url(
        match["scheme"].lower(), _parse_url_host(match["host"]), match["port"], match["rest"] or "/"
    )


def check_url(url: Url, allowed_addresses: Reach, *, named_elsewhere: bool) -> None:
    """Refuses a URL that cannot be allowed, before its host name is resolved.

    `named_elsewhere`: whether a proxy resolves host names.
    """
    if not isinstance(url.host, str):
        if not allowed_addresses.admits(url.host):
            raise AddressRefused(f"{url.host} is not a public address. {_ALLOW_ADVICE}")
    elif named_elsewhere and _is_loopback(url.host) and not any(map(allowed_addresses.admits, _LOOPBACK)):
        raise no_public_address(url.host)


def no_public_address(name: str) -> AddressRefused:
    return AddressRefused(f"{name} has no public address. {_ALLOW_ADVICE}")


def _build_url(scheme: str, name: str | Address, port: str | None, path_and_query: str) -> Url:
    number = int(port) if port else _DEFAULT_PORTS[scheme]
    if not 0 < number < 65_536:
        raise AddressRefused("The URL names a port that does not exist.")
    shown = name if isinstance(name, str) else f"[{name}]" if name.version == 6 else str(name)
    if number != _DEFAULT_PORTS[scheme]:
        shown = f"{shown}:{number}"
    path = quote(
        path_and_query if path_and_query.startswith("/") else f"/{path_and_query}", safe=_SENT_AS_IT_IS
    )
    return Url(f"{scheme}://{shown}{path}", name, shown)


def _parse_url_host(text: str) -> str | Address:
    try:
        return host(text)
    except BadHost as error:
        raise AddressRefused(f"The host in the URL {error}.") from error


def _is_loopback(name: str) -> bool:
    """Returns whether a host name means the machine itself for every resolver (RFC 6761)."""
    return name == "localhost" or name.endswith(".localhost")
