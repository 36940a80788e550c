"""Declares every setting of the product: name, default and meaning. Packages add settings of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal, cast

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from windlass.base.entry_points import entry_points
from windlass.base.settings import SETTINGS_GROUP, says
from windlass.base.zones.names import ZONE_PROVIDERS
from windlass.config.addresses import address, is_of_this_machine
from windlass.core.words.naming import LOCAL_DOMAIN, PLACE_NAME
from windlass.engines.registries import BuildRegistry, RegistryLogin

Words = tuple[str, ...]


class KnownProvider(Struct, frozen=True):
    """What is known about the provider of a kind, so that the settings need only the client."""

    title: str
    address: str
    scopes: str


KNOWN_PROVIDERS: Final = {
    "github": KnownProvider("GitHub", "https://github.com", "user:email"),
    "gitlab": KnownProvider("GitLab", "https://gitlab.com", "openid profile email"),
    "google": KnownProvider("Google", "https://accounts.google.com", "openid profile email"),
}

_NEED_SECRET: Final = ("github", "google")


class OidcProvider(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A provider with which people sign in to the console, by OpenID Connect or as GitHub does it."""

    client_id: Annotated[str, Meta(min_length=1)]
    client_secret: str = ""
    """Empty for a public client, which authenticates only with PKCE (RFC 7636)."""
    kind: Literal["oidc", "github", "gitlab", "google"] = "oidc"
    name: Annotated[str, Meta(pattern=r"^[a-z0-9-]{1,40}\Z")] = ""
    """The provider's identifier in URLs. Empty: the kind."""
    issuer: str = ""
    """The issuer, which is also the address of an installation of GitHub or GitLab of one's own."""
    title: str = ""
    """Label of the provider's button on the sign-in page."""
    scopes: str = ""

    def __post_init__(self) -> None:
        known = KNOWN_PROVIDERS.get(self.kind)
        if known is None:
            missing = [word for word in ("name", "issuer") if not getattr(self, word)]
            if missing:
                raise ValueError(f"{missing[0]} is required, unless kind is {' or '.join(KNOWN_PROVIDERS)}")
            known = KnownProvider(self.name, self.issuer, "openid profile email")
        elif not self.client_secret and self.kind in _NEED_SECRET:
            raise ValueError(f"client_secret is required: {known.title} takes no client without one")
        if self.kind == "github":
            # The address is part of the identity of people, so that it must have one form.
            force_setattr(self, "issuer", self.issuer.rstrip("/"))
        defaults = {"name": self.kind, "issuer": known.address, "title": known.title, "scopes": known.scopes}
        for field, value in defaults.items():
            if not getattr(self, field):
                force_setattr(self, field, value)


class ProductSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of the product, without those of packages."""

    host: Annotated[str, says("Address to listen on", opens="Addresses")] = "127.0.0.1"
    port: Annotated[int, says("Port to listen on; 0 picks a free one", ge=0, le=65_535)] = 8080
    public_url: Annotated[
        str, says("Address at which clients reach this server, such as https://windlass.example.com")
    ] = ""
    leave_seconds: Annotated[
        float,
        says("Seconds for which a stopping server keeps serving, with /readyz at 503", ge=0),
    ] = 0.0
    gateway_host: Annotated[str, says("Address on which public ports of services are reached")] = "127.0.0.1"
    gateway_port: Annotated[
        int, says("Port for HTTP to services by host name; 0 picks a free one", ge=0, le=65_535)
    ] = 8081
    https_port: Annotated[
        int, says("Port for HTTPS to services by host name, usually 443; 0: no HTTPS", ge=0, le=65_535)
    ] = 0
    public_https_port: Annotated[
        int,
        says(
            "Port at which visitors reach services by HTTPS, usually 443. Set it if a router in front maps "
            "it to https_port, or if a proxy in front terminates TLS; 0: the same as https_port",
            ge=0,
            le=65_535,
        ),
    ] = 0
    gateway_http2: Annotated[bool, says("Visitors may speak HTTP/2 at https_port; no: only HTTP/1.1")] = True
    public_ports: Annotated[
        str,
        says(
            "Range of ports of the machine for public TCP ports and public databases of services, such as "
            "30000-32767. An organization may hold an eighth of them, and at least 8; a project or "
            "environment as many of these as remain free, so half of them at most",
            pattern=r"^[0-9]{1,5}-[0-9]{1,5}\Z",
        ),
    ] = "30000-32767"
    public_domain: Annotated[
        str,
        says(
            "Names of services end with this, as in shop-production.localhost; its former name, "
            "gateway_domain, is read as well",
            pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?\Z",
        ),
    ] = LOCAL_DOMAIN
    console_domain: Annotated[
        str,
        says(
            "Name at which the gateway also serves the console and the API, such as windlass.example.com; "
            "with https_port, only by HTTPS; empty: none",
            pattern=r"^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)?\Z",
        ),
    ] = ""
    address_domain: Annotated[
        str,
        says(
            "Domain whose names contain addresses, such as sslip.io: as long as public_domain is localhost, "
            "names of services also end with the address of this machine and with this, as in "
            "shop-production.192-0-2-10.sslip.io; empty: not"
        ),
    ] = ""
    dns_servers: Annotated[
        Words,
        says(
            "Name servers that are asked about domains, such as 192.0.2.53:53; empty: those of this machine"
        ),
    ] = ()
    domain_proof: Annotated[
        str,
        says(
            "How a domain is proved: records (a CNAME or TXT record of the service), or address (it may also "
            "resolve to this machine alone; only where all organizations trust each other)",
            pattern=r"^(records|address)\Z",
        ),
    ] = "records"
    acme_directory: Annotated[
        str,
        says(
            "Directory of the authority that gives certificates for domains by ACME (RFC 8555); empty: none",
            pattern=r"^(https?://[^\s/?#]+(/[^\s?#]*)?)?\Z",
        ),
    ] = "https://acme-v02.api.letsencrypt.org/directory"
    acme_ca_file: Annotated[
        str, says("File with authorities (PEM) that are trusted when this authority itself is called")
    ] = ""
    acme_email: Annotated[
        str, says("E-mail address that this authority may write to about certificates; empty: none")
    ] = ""
    acme_key_id: Annotated[
        str, says("Id of the account of this authority's website, where it wants one (EAB); empty: none")
    ] = ""
    acme_key: Annotated[
        str,
        says("Key of this account (HMAC) in Base64url", secret=True, pattern=r"^[A-Za-z0-9_-]*=*\Z"),
    ] = ""
    acme_fallback_directory: Annotated[
        str,
        says(
            "Directory of another authority, which is asked where the first one does not answer or is at its "
            "limits; empty: none",
            pattern=r"^(https?://[^\s/?#]+(/[^\s?#]*)?)?\Z",
        ),
    ] = ""
    acme_fallback_key_id: Annotated[
        str, says("Id of the account of the other authority's website, where it wants one; empty: none")
    ] = ""
    acme_fallback_key: Annotated[
        str,
        says("Key of this account (HMAC) in Base64url", secret=True, pattern=r"^[A-Za-z0-9_-]*=*\Z"),
    ] = ""
    acme_challenge: Annotated[
        str,
        says(
            "How this authority proves a name: http-01 (at port 80), tls-alpn-01 (at port 443), or auto: by "
            "the other one where the first has failed",
            pattern=r"^(auto|http-01|tls-alpn-01)\Z",
        ),
    ] = "auto"
    public_domain_certificates: Annotated[
        bool,
        says(
            "Whether names of services below public_domain get certificates of this authority: one with *. "
            "by dns_provider, or else one for each name; false where a proxy in front has them"
        ),
    ] = True
    dns_provider: Annotated[
        str,
        says(
            "Provider of DNS that proves names with *. to this authority (dns-01): "
            f"{', '.join(ZONE_PROVIDERS)}; empty: none. Names of services below public_domain then share "
            "one certificate",
            pattern=rf"^({'|'.join(ZONE_PROVIDERS)})?\Z",
        ),
    ] = ""
    dns_credentials: Annotated[
        str,
        says(
            "Credentials for this provider: a token of Cloudflare, ACCESS_KEY_ID:SECRET_ACCESS_KEY for "
            "route53, NAME:SECRET of the key (TSIG) for rfc2136",
            secret=True,
        ),
    ] = ""
    dns_update_server: Annotated[
        str, says("Name server that takes updates for rfc2136, such as 192.0.2.53:53")
    ] = ""
    dns_hook: Annotated[
        str,
        says(
            "Command for hook, such as /usr/local/bin/set-record; it gets add or remove, the name of the TXT "
            "record, and its text"
        ),
    ] = ""
    trusted_proxies: Annotated[Words, says("Addresses whose X-Forwarded-For is believed")] = ()
    proxy_protocol_from: Annotated[
        Words,
        says(
            "Addresses of proxies that begin each connection to gateway_port and https_port with a header of "
            "the PROXY protocol, version 1 or 2. Without a valid one, a connection from there is closed"
        ),
    ] = ()
    cors_origins: Annotated[
        Words, says("Origins whose pages may call the API, such as https://console.example.com")
    ] = ()

    data_dir: Annotated[str, says("Folder with all data of this installation", opens="Data")] = (
        "./windlass-data"
    )
    database_url: Annotated[
        str, says("postgresql://… to use PostgreSQL; empty is SQLite in the data directory", secret=True)
    ] = ""
    key: Annotated[
        str,
        says(
            "Key that encrypts secrets, 64 hexadecimal digits; empty is the file `key` in the data directory",
            secret=True,
        ),
    ] = ""
    log_retention_bytes: Annotated[int, says("Log bytes kept for each service", ge=65_536)] = 64 * 1024 * 1024
    log_retention_days: Annotated[int, says("Days that log lines are kept", ge=1)] = 14
    audit_retention_days: Annotated[
        int, says("Days that the events of the audit are kept; 0 is for ever", ge=0, le=36_500)
    ] = 365

    admin_token: Annotated[
        str,
        says(
            "An Admin token of the first organization, 32 characters or more",
            secret=True,
            opens="Access",
            pattern=r"^([!-~]{32,})?\Z",
        ),
    ] = ""
    metrics_token: Annotated[
        str,
        says(
            "A token that reads /metrics and nothing else, 32 characters or more",
            secret=True,
            pattern=r"^([!-~]{32,})?\Z",
        ),
    ] = ""
    open_metrics: Annotated[
        bool, says("Answer /metrics without a token, to everyone who reaches the server")
    ] = False
    rate_limit: Annotated[int, says("Requests per hour and token", ge=1)] = 1000
    session_rate_limit: Annotated[
        int,
        says("Requests per hour and person who signs in, at an OpenID Connect issuer or in a browser", ge=1),
    ] = 20_000
    session_ttl: Annotated[
        int, says("How long a session of the built-in issuer lasts, in seconds", ge=60)
    ] = 3600
    browser_session_hours: Annotated[
        int, says("How long a browser stays signed in to the console after it was used last", ge=1, le=8760)
    ] = 12
    passwords: Annotated[
        str,
        says(
            "Whether people sign in with e-mail address and password: auto (where the address of this server "
            "has https, or is one of this machine only), always (also over plain http), never",
            pattern=r"^(auto|always|never)\Z",
        ),
    ] = "auto"
    require_second_factor: Annotated[
        bool, says("Whether people with a password need an authenticator app to sign in")
    ] = False
    smtp_host: Annotated[
        str,
        says("Mail server that sends the links to choose a new password; empty: an Admin hands them over"),
    ] = ""
    smtp_port: Annotated[int, says("Port of this mail server", ge=1, le=65_535)] = 587
    smtp_security: Annotated[
        str,
        says(
            "Encryption to this mail server: starttls, tls (usually port 465), none",
            pattern=r"^(starttls|tls|none)\Z",
        ),
    ] = "starttls"
    smtp_username: Annotated[str, says("User name for this mail server; empty if it takes no login")] = ""
    smtp_password: Annotated[str, says("Password for this mail server", secret=True)] = ""
    smtp_from: Annotated[
        str,
        says(
            "Sender of its mails, such as windlass@example.com; empty: windlass@ and the host of the address"
        ),
    ] = ""
    oidc_providers: Annotated[
        tuple[OidcProvider, ...],
        says(
            "Providers with which people sign in to the console: [[oidc_providers]] in the file, or JSON, "
            "each with client_id, client_secret, and a kind (github, gitlab, google), or else with name and "
            "issuer of an OpenID Connect provider, and a title for its button",
            secret=True,
        ),
    ] = ()
    oidc_issuer: Annotated[str, says("OpenID Connect issuer whose JWTs are accepted")] = ""
    oidc_audience: Annotated[Words, says("Audiences that such a JWT may be for")] = ("windlass",)
    oidc_algorithms: Annotated[Words, says("Signature algorithms accepted from it")] = (
        "RS256",
        "ES256",
        "EdDSA",
    )
    oidc_join: Annotated[
        str,
        says(
            "Role that the people of oidc_issuer get in the first organization; empty: only invited people "
            "may sign in",
            pattern=r"^(Read|Deploy|Write|Admin)?\Z",
        ),
    ] = ""

    engine: Annotated[
        str, says("Engine of the cluster `local`: auto, process, docker, kubernetes", opens="Services")
    ] = "auto"
    place: Annotated[
        str, says("Name of this machine, where servers run on several machines", pattern=PLACE_NAME)
    ] = "local"
    isolation_users: Annotated[
        str,
        says(
            "Range of user ids for services, such as 1900000000-1999999999, where Windlass runs as root",
            pattern=r"^[0-9]{4,10}-[0-9]{4,10}\Z",
        ),
    ] = "1900000000-1999999999"
    share_machine: Annotated[
        bool,
        says(
            "Whether several organizations may deploy on the process engine where services share a network, "
            "a user or memory, so that one can take the ports of another or stop it"
        ),
    ] = False
    parallel_deployments: Annotated[
        int,
        says(
            "How many deployments run at once, on this machine and on each other engine: so many that are "
            "built, and as many that need no build",
            ge=1,
            le=1000,
        ),
    ] = 4
    auto_deploy_seconds: Annotated[
        int,
        says("How often the branch of a service with `auto_deploy` is checked", ge=5, le=86_400),
    ] = 60
    previews_of_project: Annotated[
        int,
        says("How many previews a project may have at a time; further ones wait for room", ge=0, le=10_000),
    ] = 10
    preview_days: Annotated[
        int, says("How many days after its newest commit a preview is deleted", ge=1, le=3650)
    ] = 14
    preview_quiet_hours: Annotated[
        int,
        says(
            "How many hours after its newest commit a preview is stopped; the next commit starts it again",
            ge=1,
            le=87_600,
        ),
    ] = 48
    build_seconds: Annotated[int, says("How long a build may take", ge=1)] = 1800
    ready_seconds: Annotated[
        int,
        says(
            "How long a new release may take to become healthy, unless its probes ask for more: "
            "up to an hour",
            ge=1,
        ),
    ] = 300
    run_seconds: Annotated[
        int,
        says(
            "How long a release command, a one-off command, or a service that runs once may run, unless the "
            "service says otherwise",
            ge=1,
        ),
    ] = 3600
    settle_seconds: Annotated[
        float, says("How long an instance without ports and probes must run to count as healthy", ge=0)
    ] = 3.0
    stop_seconds: Annotated[
        float, says("How long an instance may take to end, and requests under way to finish", ge=0)
    ] = 10.0
    kept_artifacts: Annotated[
        int, says("How many builds of a service are kept to roll back to", ge=1, le=1000)
    ] = 10
    push_bytes: Annotated[
        int,
        says("Bytes that one `git push` to this server may send; a first push sends all", ge=1024, le=2**40),
    ] = 2 * 1024 * 1024 * 1024
    upload_bytes: Annotated[
        int, says("Bytes of an uploaded archive; its files may have eight times as many", ge=1024, le=2**40)
    ] = 256 * 1024 * 1024
    upload_files: Annotated[
        int, says("How many files and folders an uploaded folder may have", ge=1, le=10_000_000)
    ] = 100_000
    upload_kept_bytes: Annotated[
        int,
        says("Bytes of all uploads of an application; those that nothing needs go first", ge=1024, le=2**50),
    ] = 4 * 1024 * 1024 * 1024
    upload_reserve_bytes: Annotated[
        int, says("Bytes of the disk that uploads leave free, beside disk_reserve_bytes", ge=0, le=2**50)
    ] = 1024 * 1024 * 1024
    disk_reserve_bytes: Annotated[
        int,
        says(
            "Bytes of the disk that sites, services and builds leave free, at most a twentieth of the disk. "
            "With less, nothing is built, and the service that holds most is ended if it holds a "
            "considerable part",
            ge=0,
            le=2**50,
        ),
    ] = 2 * 1024 * 1024 * 1024
    organization_disk_bytes: Annotated[
        int,
        says(
            "Bytes of the disk and of the database that one organization may hold; above them, its builds, "
            "uploads and large requests are refused. 0: three times what is free besides disk_reserve_bytes, "
            "and at least an equal part of the disk",
            ge=0,
            le=2**50,
        ),
    ] = 0
    build_cache_bytes: Annotated[
        int,
        says(
            "Bytes of build caches that the process engine keeps for each organization; the least recently "
            "used go first",
            ge=0,
        ),
    ] = 10 * 1024 * 1024 * 1024
    detection_seconds: Annotated[
        int,
        says(
            "Seconds of processor time to find out from the files of a commit how it is built and started",
            ge=1,
            le=3600,
        ),
    ] = 20
    detection_memory: Annotated[
        int,
        says(
            "MiB of memory for this detection; two run at a time for an organization, and eight in all",
            ge=128,
            le=65_536,
        ),
    ] = 512
    toolchain_downloads: Annotated[
        bool,
        says("Whether builds fetch what this machine lacks from package registries, such as Node or Python"),
    ] = True
    containers_url: Annotated[
        str,
        says(
            "Address at which containers reach this server, such as http://10.0.0.5:8080, as runs of "
            "Terraform do; empty: derived from host, port and public_url",
            pattern=r"^(https?://[^\s/?#]+(/[^\s?#]*)?)?\Z",
        ),
    ] = ""
    registry: Annotated[
        str,
        says(
            "Registry for images that the Docker engine builds, such as registry.example.com/windlass: each "
            "is sent there, and fetched where it is gone; empty: they stay on the engine",
            pattern=r"^([a-z0-9.-]+(:[0-9]{1,5})?(/[a-z0-9._/-]+)?)?\Z",
        ),
    ] = ""
    registry_username: Annotated[str, says("User name for this registry; empty if it takes no login")] = ""
    registry_password: Annotated[str, says("Password for this registry", secret=True)] = ""
    git_allow_local: Annotated[bool, says("Allow file:// and loopback repositories")] = False
    outbound_allow: Annotated[Words, says("Private networks that outgoing requests may reach")] = ()
    outbound_ca_file: Annotated[
        str,
        says(
            "File with authorities (PEM) whose certificates outgoing requests take beside the system's, such "
            "as that of a registry of your own"
        ),
    ] = ""
    outbound_proxy: Annotated[
        str,
        says(
            "Proxy that webhooks are sent through, such as http://proxy.example.com:3128; empty: directly",
            secret=True,
        ),
    ] = ""

    log_level: Annotated[
        str,
        says(
            "debug, info, warning or error",
            opens="Logs of the server",
            pattern=r"^(debug|info|warning|error)\Z",
        ),
    ] = "info"
    log_format: Annotated[
        str, says("json, text, or auto: text on a terminal", pattern=r"^(json|text|auto)\Z")
    ] = "auto"
    access_log: Annotated[bool, says("Log every request, one JSON object a line")] = False
    access_log_file: Annotated[str, says("File of the access log; empty is standard error")] = ""
    gateway_access_log_file: Annotated[
        str, says("File of the access log of services; empty: no such log")
    ] = ""

    @property
    def build_registry(self) -> BuildRegistry | None:
        """The registry to which built images are pushed; None if they stay on the engine."""
        if not self.registry:
            return None
        name, password = self.registry_username, self.registry_password
        return BuildRegistry(self.registry.rstrip("/"), RegistryLogin(name, password) if name else None)

    @property
    def bindable(self) -> range:
        """The machine's ports that can become public ports of services. Raises ValueError."""
        first, _, last = self.public_ports.partition("-")
        if not 0 < int(first) <= int(last) <= 65_535:
            raise ValueError(f"{self.public_ports} is not a range of ports, such as 30000-32767")
        return range(int(first), int(last) + 1)

    @property
    def visited_https_port(self) -> int:
        """The port for HTTPS in the addresses of services; 0 without HTTPS."""
        return self.public_https_port or self.https_port

    @property
    def takes_passwords(self) -> bool:
        """Whether people can sign in with a password, which others on the way could read over plain http."""
        if self.passwords == "auto":
            return self.url.startswith("https://") or is_of_this_machine(self.url)
        return self.passwords == "always"

    @property
    def has_provider(self) -> bool:
        """Whether people can sign in at a provider."""
        return bool(self.oidc_issuer or self.oidc_providers)

    @property
    def url(self) -> str:
        """The address of this server for clients, and the name of the built-in issuer."""
        if self.public_url:
            return self.public_url.rstrip("/")
        if domain := self.console_domain.lower():
            https = self.visited_https_port
            return address("https" if https else "http", domain, https or self.gateway_port)
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def _with_packages() -> type[ProductSettings]:
    """Returns the settings of the product and of the installed packages, as one type."""
    forms = [point.load() for point in entry_points(SETTINGS_GROUP)]
    declared = [field for form in forms for field in msgspec.structs.fields(form)]
    fields = [(field.name, field.type, field.default) for field in declared]
    names = [*ProductSettings.__struct_fields__, *(name for name, *_ in fields)]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise LookupError(f"There are two settings {twice[0]}: a package brings one that there is already")
    composed = msgspec.defstruct(
        "Settings",
        fields,
        bases=(ProductSettings,),
        module=__name__,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
    return cast(type[ProductSettings], composed)


if TYPE_CHECKING:
    Settings = ProductSettings
else:
    Settings = _with_packages()
