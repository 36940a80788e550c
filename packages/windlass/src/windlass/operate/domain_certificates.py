"""Reports certificates of domains that are not renewed, for `windlass doctor`."""

from __future__ import annotations

from typing import Final

from windlass.base.clock import stamp
from windlass.engines.findings import Finding, ok, warn
from windlass.store import Reads
from windlass.store.tables.certificates import EndingCertificate

_MAX_NAMED: Final = 5
"""Number of certificates that the finding names."""


async def examine_certificates(reads: Reads, now: int) -> Finding:
    ending = await reads.certificates.ending(now)
    if not ending:
        return ok("Certificates", "those of domains are renewed in time")
    shown = "; ".join(map(_describe, ending[:_MAX_NAMED])) + ("; …" if len(ending) > _MAX_NAMED else "")
    advice = (
        "find the cause with `windlass domain check`, and in the log of the server (docs/domains.md, `When "
        "it does not work`); have uploaded certificates replaced by new ones"
    )
    return warn("Certificates", f"certificates that are not renewed: {len(ending)} ({shown})", advice)


def _describe(certificate: EndingCertificate) -> str:
    """Returns the end of a certificate, and the refusal of its authority without control characters."""
    end = f"{certificate.name} ends at {stamp(certificate.expires)}"
    message = "".join(letter if letter.isprintable() else " " for letter in certificate.message)
    return f"{end}: {message.rstrip('.')}" if message else end
