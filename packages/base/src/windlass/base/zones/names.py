"""The names of providers of DNS zones. Imports nothing, because the settings need only the names."""

from typing import Final

ZONE_PROVIDERS: Final = ("cloudflare", "route53", "rfc2136", "hook")
"""Each is a module of this folder."""
