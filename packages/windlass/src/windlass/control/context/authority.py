"""The authority that gives certificates, and the ways by which this server calls it and visits domains."""

from __future__ import annotations

from windlass.base.acme import AcmeClient, AuthorityHttp
from windlass.base.acme.signing import ExternalAccount
from windlass.base.http_out import HttpSender
from windlass.base.http_out.tls_visits import TlsVisits


class Authority:
    def __init__(self, directory: str, http: AuthorityHttp, external: ExternalAccount | None = None) -> None:
        self.directory = directory
        """The address of its directory; empty if no certificates are ordered."""
        self.http = http
        self.external = external
        """The account of its website, if it wants one."""
        self.client: AcmeClient | None = None
        """The client with the account of this installation, once it was used. It keeps the directory and
        unused nonces."""


class Visits:
    """Opens domains as a visitor does, at the addresses that the name servers of the settings say."""

    def __init__(self, http: HttpSender, tls: TlsVisits, port: int = 80, https_port: int = 443) -> None:
        self.http = http
        self.tls = tls
        self.port = port
        """The port at which visitors reach the gateway by HTTP."""
        self.https_port = https_port
