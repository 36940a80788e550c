"""The proxies of providers that may be in front of a domain, and how their records and answers tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import Final

from msgspec import Struct

from windlass.base.http_out import HttpResult
from windlass.families.domain import Proxy

_CLOUDFLARE: Final = tuple(
    map(
        ip_network,
        (
            "103.21.244.0/22", "103.22.200.0/22", "103.31.4.0/22", "104.16.0.0/13", "104.24.0.0/14",
            "108.162.192.0/18", "131.0.72.0/22", "141.101.64.0/18", "162.158.0.0/15", "172.64.0.0/13",
            "173.245.48.0/20", "188.114.96.0/20", "190.93.240.0/20", "197.234.240.0/22", "198.41.128.0/17",
            "2400:cb00::/32", "2606:4700::/32", "2803:f800::/32", "2405:b500::/32", "2405:8100::/32",
            "2a06:98c0::/29", "2c0f:f248::/32",
        ),
    )
)  # fmt: skip
"""The networks of Cloudflare, as it publishes them (cloudflare.com/ips)."""


_CLOUDFLARE_PROBLEMS: Final = {
    521: "This machine refuses connections from Cloudflare: open the port for its networks.",
    522: "Cloudflare cannot reach this machine: open the port for its networks.",
    525: "Cloudflare connects by HTTPS (mode Full), and there is no certificate for this name here yet. Set "
    "the record to *DNS only* until there is one, or set dns_provider.",
    526: "Cloudflare connects by HTTPS (mode Full (strict)), and does not trust the certificate here: upload "
    "one that it trusts, or let an authority that it knows make it.",
}
"""Its own statuses (developers.cloudflare.com, 5xx errors): each tells how it connects, and why it cannot."""


class _Provider(Struct, frozen=True):
    title: str
    aliases: tuple[str, ...] = ()
    """Domains that names of its customers point at."""
    headers: tuple[str, ...] = ()
    """Headers that only its answers have."""
    server: str = ""
    """The beginning of the header Server."""


_PROVIDERS: Final[Mapping[Proxy, _Provider]] = {
    "CLOUDFLARE": _Provider("Cloudflare", ("cdn.cloudflare.net",), ("cf-ray",), "cloudflare"),
    "CLOUDFRONT": _Provider("Amazon CloudFront", ("cloudfront.net",), ("x-amz-cf-id",)),
    "FASTLY": _Provider("Fastly", ("fastly.net", "fastlylb.net"), ("x-fastly-request-id",)),
    "AKAMAI": _Provider("Akamai", ("edgekey.net", "edgesuite.net", "akamaiedge.net"), (), "akamai"),
    "AZURE": _Provider("Azure Front Door", ("azurefd.net", "azureedge.net"), ("x-azure-ref",)),
    "BUNNY": _Provider("bunny.net", ("b-cdn.net",), ("cdn-requestid",), "bunnycdn"),
}


def title_of(proxy: Proxy) -> str:
    return _PROVIDERS[proxy].title if proxy else ""


def proxy_of_records(addresses: Sequence[str], aliases: Sequence[str]) -> Proxy:
    """Returns the provider that the addresses or aliases of a name belong to."""
    for proxy, provider in _PROVIDERS.items():
        if any(alias.endswith(f".{domain}") for alias in aliases for domain in provider.aliases):
            return proxy
    found = [ip_address(address) for address in addresses]
    is_proxied = found and all(any(address in network for network in _CLOUDFLARE) for address in found)
    return "CLOUDFLARE" if is_proxied else ""


def proxy_of_answer(headers: Mapping[str, str]) -> Proxy:
    """Returns the provider whose proxy has passed an answer on. `headers`: by lower-case name."""
    server = headers.get("server", "").lower()
    for proxy, provider in _PROVIDERS.items():
        if any(name in headers for name in provider.headers) or (
            provider.server and server.startswith(provider.server)
        ):
            return proxy
    return ""


def problem_of_status(answer: HttpResult) -> str:
    """Returns why a proxy does not reach the gateway, as its status tells; empty if it does not tell."""
    is_told = proxy_of_answer(answer.headers) == "CLOUDFLARE"
    return _CLOUDFLARE_PROBLEMS.get(answer.status, "") if is_told else ""
