"""Gives services public names on a machine without a domain, by a name service that reads addresses in names.

`shop-production.192-0-2-10.sslip.io` has the address 192.0.2.10, without any record of the operator.
"""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from windlass.base.errors import BadSetting
from windlass.config import Settings
from windlass.core.words.domains import BadDomain, ascii_name
from windlass.core.words.naming import LOCAL_DOMAIN

_UNUSED_ADDRESSES: Final = (("192.0.2.1", socket.AF_INET), ("2001:db8::1", socket.AF_INET6))
"""Addresses of no machine, to find out from which address the others are called. Nothing is sent."""


def with_address_domain(settings: Settings) -> Settings:
    """Returns the settings with a `public_domain` that has the address of this machine, if `address_domain`
    is set and there is no other. Raises BadSetting."""
    if not settings.address_domain or settings.public_domain != LOCAL_DOMAIN:
        return settings
    address = _address_of(settings)
    if not address:
        raise BadSetting("address_domain: set public_url to the address of this machine: it has no route")
    try:
        domain = ascii_name(f"{address.replace('.', '-').replace(':', '-')}.{settings.address_domain}")
    except BadDomain as error:
        raise BadSetting(f"address_domain: {error}") from error
    return replace(settings, public_domain=domain)


def _address_of(settings: Settings) -> str:
    """Returns the address of this machine as the settings name it, or else that of its default route."""
    for host in (urlsplit(settings.public_url).hostname or "", settings.gateway_host):
        try:
            address = ip_address(host)
        except ValueError:
            continue
        if not address.is_loopback and not address.is_unspecified:
            return str(address)
    for target, family in _UNUSED_ADDRESSES:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((target, 9))
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return ""
