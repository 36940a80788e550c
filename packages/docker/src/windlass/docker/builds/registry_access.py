"""Decides whether the Docker engine may call the registry of an organization.

The engine opens the connection by itself, with its own name server, and speaks plain HTTP to addresses of its
machine. So the host is checked before each call, by the rules of the server's own requests. The engine may
still resolve the name otherwise a moment later, and follows redirects of the registry.
"""

from __future__ import annotations

from windlass.base.addresses import Address, BadHost, Reach, Resolve, host, resolve
from windlass.engines.registries import parse_ref

_HTTPS_PORT = 443


class RegistryAccess:
    def __init__(self, allowed: Reach | None, resolve: Resolve = resolve) -> None:
        """`allowed`: the addresses that may be called; None for the operator's own registry."""
        self._allowed, self._resolve = allowed, resolve

    async def refusal(self, ref: str) -> str:
        """Returns why the engine may not call the registry of an image; empty if it may, or if its host has
        no address here."""
        if self._allowed is None:
            return ""
        found = parse_ref(ref).host
        try:
            addresses = await self._addresses(found)
        except BadHost as error:
            return f"Correct the address of the registry {found}: its host {error}"
        closed = [str(each) for each in addresses if not self._allowed.admits(each)]
        if not closed:
            return ""
        return (
            f"Ask the operator to allow the registry {found} with outbound_allow: Windlass may not send the "
            f"Docker engine to {', '.join(closed[:3])}"
        )

    async def _addresses(self, text: str) -> list[Address]:
        name = text.rpartition(":")[0] if text.rpartition(":")[2].isdecimal() else text
        parsed = host(name)
        if not isinstance(parsed, str):
            return [parsed]
        try:
            return [*await self._resolve(parsed, _HTTPS_PORT)]
        except OSError:  # the engine finds no address either, or uses a proxy
            return []
