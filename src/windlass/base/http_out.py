"""Outgoing HTTP: one way out, with limits on time and size, that follows no redirect."""

from __future__ import annotations

MOST = 1024 * 1024
SECONDS = 10.0


async def fetch(url: str) -> bytes:
    """The body of a document that the operator told us to trust, such as an issuer's keys."""
    import aiohttp  # noqa: PLC0415 (300 ms and 15 MB, and many installations never call out)

    timeout = aiohttp.ClientTimeout(total=SECONDS)
    async with (
        aiohttp.ClientSession(timeout=timeout, trust_env=True) as session,
        session.get(url, allow_redirects=False) as answer,
    ):
        if answer.status != 200:
            raise OSError(f"{url} answered {answer.status}")
        body = await answer.content.read(MOST + 1)
        while len(body) <= MOST and (more := await answer.content.read(MOST + 1)):
            body += more
        if len(body) > MOST:
            raise OSError(f"{url} answered more than {MOST} bytes")
        return body
