"""Tries the credentials of the provider of DNS, for `windlass doctor`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

from windlass.base.zones.provider import ZoneFailure
from windlass.config import BadSetting, Settings
from windlass.control.services.dns_challenges import CHALLENGE_LABEL
from windlass.core.words.naming import LOCAL_DOMAIN
from windlass.engines.findings import TIMEOUT, Finding, fail, ok, warn
from windlass.install.composition import dns_client, way_out, zone_provider

_WHAT = "DNS provider"
_ADVICE = (
    "correct the settings dns_provider, dns_credentials, dns_update_server or dns_hook (docs/domains.md, `A "
    "provider of DNS`): names with *. get no certificates until then"
)
_DOMAIN_ADVICE = "set public_domain to a domain of yours: its zone is looked for"


async def examine_zone_credentials(settings: Settings) -> Sequence[Finding]:
    """Asks the provider for the zone of the names of services, and changes nothing there. Without a provider
    there is no finding."""
    if not settings.dns_provider:
        return ()
    domain = settings.public_domain.lower()
    if domain == LOCAL_DOMAIN:
        return [warn(_WHAT, f"{settings.dns_provider}: it was not asked", _DOMAIN_ADVICE)]
    try:
        async with AsyncExitStack() as stack, asyncio.timeout(TIMEOUT):
            transport = way_out(settings)
            stack.push_async_callback(transport.close)
            zones = zone_provider(settings, transport, dns_client(settings))
            assert zones is not None
            zone = await zones.check(f"{CHALLENGE_LABEL}.{domain}")
    except (ZoneFailure, BadSetting) as error:
        return [fail(_WHAT, str(error), _ADVICE)]
    except TimeoutError:
        return [fail(_WHAT, f"{settings.dns_provider}: no answer within {TIMEOUT} seconds", _ADVICE)]
    return [ok(_WHAT, f"{zones.title} takes the credentials for the zone {zone}")]
