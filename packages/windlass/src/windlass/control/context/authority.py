"""The authority that gives certificates, and the ways by which this server calls it and visits domains."""

from __future__ import annotations

from windlass.base.acme import AcmeClient, AuthorityHttp
from windlass.base.http_out import HttpSender


class Authority:
    def __init__(self, directory: str, http: AuthorityHttp) -> None:
        self.directory = directory
        """The address of its directory; empty if no certificates are ordered."""
        self.http = http
        self.client: AcmeClient | None = None
        """The client with the account of this installation, once it was used. It keeps the directory and
        unused nonces."""


class Visits:
    """Opens domains as a visitor does, at the addresses that the name servers of the settings say."""

    def __init__(self, http: HttpSender, port: int = 80) -> None:
        self.http = http
        self.port = port
        """The port at which visitors reach the gateway by HTTP."""
