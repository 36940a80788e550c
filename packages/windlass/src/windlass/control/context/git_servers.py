"""Access to the APIs of git servers for requests, with limited concurrency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from windlass.base.errors import Unavailable
from windlass.base.http_out import HttpTransport
from windlass.registries.client import RequestPauses
from windlass.sources.git_servers.client import GitServerAccess, GitServerClient, KeptAnswers, usable_token
from windlass.sources.git_servers.github_app import InstallationTokens

MAX_REQUESTS, MAX_REQUESTS_OF_ORG = 16, 4
"""The number of requests that ask git servers at a time: in total, and of one organization."""


class GitServers:
    def __init__(self) -> None:
        self._pauses = RequestPauses()
        self._kept = KeptAnswers()
        self._asking: Counter[str] = Counter()
        self._installation_tokens = InstallationTokens()

    async def git_password(self, transport: HttpTransport, access: GitServerAccess) -> str:
        """Returns what git sends as password. Raises GitServerFailure."""
        return await usable_token(transport, self._installation_tokens, access)

    @contextmanager
    def client(
        self, transport: HttpTransport, org: str, access: GitServerAccess
    ) -> Iterator[GitServerClient]:
        """Opens a client for one request. Raises Unavailable if too many requests ask git servers."""
        if self._asking.total() >= MAX_REQUESTS or self._asking[org] >= MAX_REQUESTS_OF_ORG:
            raise Unavailable(
                "Ask again in a few seconds: as many git servers as possible are being asked now",
                {"retry-after": "5"},
            )
        self._asking[org] += 1
        try:
            yield GitServerClient(transport, access, self._pauses, self._kept, self._installation_tokens)
        finally:
            self._asking[org] -= 1
            if not self._asking[org]:
                del self._asking[org]
