"""A domain: a name of your own under which a service is reached, with its proof and its certificate."""

from typing import Annotated, Final, Literal

from msgspec import Meta

from windlass.core.declare.actions import Itself, get, post
from windlass.core.declare.fields import (
    Maybe,
    Timestamp,
    absent,
    example,
    hidden,
    several_lines,
    shaped,
)
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import ALL_VERBS, Family, Shown, Spec, clash
from windlass.core.declare.traits import has_domains
from windlass.core.words.audit import AuditWords
from windlass.core.words.domains import WILDCARD_PREFIX, BadDomain, ascii_name

MAX_CHAIN_LENGTH: Final = 64 * 1024
"""Maximum size of an uploaded chain of certificates, in characters."""
MAX_KEY_LENGTH: Final = 8 * 1024

Proxy = Literal["", "CLOUDFLARE", "CLOUDFRONT", "FASTLY", "AKAMAI", "AZURE", "BUNNY"]
"""A proxy of a provider in front of a domain."""

_Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=1024,
        pattern=shaped(r"^[^\x00-\x1f.]+(\.[^\x00-\x1f.]+)+\Z", "must be a name such as shop.example.com"),
        description="The name, such as shop.example.com, or *.example.com for all names with one more label",
    ),
    example("shop.example.com"),
]


class CustomDomain(Spec):
    """A domain: a name of your own under which a service is reached, with its proof and its certificate."""

    domain: _Name
    generate_certificate: Annotated[
        bool,
        Meta(
            description="Whether Windlass gets a certificate for it by ACME and renews it; false where a CDN "
            "or a proxy in front ends TLS"
        ),
        example(True),
    ]
    use_cdn: Annotated[
        bool,
        Meta(
            description="Whether a CDN is in front, so that the name resolves to addresses of the CDN; the "
            "TXT record proves it then"
        ),
    ] = False
    redirect_to: Annotated[
        str,
        Meta(
            max_length=1024,
            description="Another domain of the service, to which visitors of this one are redirected (308), "
            "with path and query; empty for none. While that one is not proved, the service answers here",
        ),
        example(""),
    ] = ""


class CustomDomainShown(Shown):
    validation_domain: Annotated[
        str,
        Meta(
            description="Where the name has to point at, with a CNAME record: a name of this service alone. "
            "The record proves the domain"
        ),
        example("w3f1c9a0b7d2e4f68a5c1.apps.example.com"),
    ]
    status: Annotated[
        Literal["VALIDATION_PENDING"],
        Meta(description="The one value that clients of the interface know; `state` says more"),
    ] = "VALIDATION_PENDING"
    challenge_name: Annotated[
        str,
        Meta(
            description="The name of a TXT record that proves the domain as well, where no CNAME is possible"
        ),
        example("_windlass-challenge.shop.example.com"),
    ]
    challenge_value: Annotated[
        str, Meta(description="The text of this TXT record"), example("windlass=8c5e2a7d40b19f63")
    ]
    state: Annotated[
        Literal["UNPROVED", "PROVED"],
        Meta(
            description="PROVED: a record of the name proves it, and its visitors reach the service. "
            "UNPROVED: nothing is served yet; `problem` says why"
        ),
    ] = "UNPROVED"
    proved_at: Maybe[Timestamp] = absent
    proof_lost_at: Annotated[
        Maybe[Timestamp],
        Meta(description="Since when no record proves it any more; it is served for three more days"),
    ] = absent
    certificate_state: Annotated[
        Literal["NONE", "WAITING", "ORDERED", "LIVE", "FAILED"],
        Meta(
            description="WAITING: for the proof, or for the next try. ORDERED: the authority checks the "
            "name. FAILED: the last try failed, and there is no certificate that is valid"
        ),
    ] = "NONE"
    certificate_origin: Annotated[
        Literal["", "ACME", "UPLOADED"],
        Meta(description="UPLOADED: by a user, so that none is ordered. Empty without a certificate"),
    ] = ""
    certificate_expires_at: Maybe[Timestamp] = absent
    problem: Annotated[str, Meta(description="What has to be done next, in words; empty if nothing")] = ""
    next_try_at: Maybe[Timestamp] = absent


class CertificateUpload(Spec):
    """A certificate of your own for a domain, with its private key."""

    chain: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_CHAIN_LENGTH,
            description="The certificate of the domain in PEM, followed by those that sign it, in order",
        ),
        several_lines(),
        example("-----BEGIN CERTIFICATE-----"),
    ]
    key: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=MAX_KEY_LENGTH,
            description="Its private key in PEM, without a password. Sealed, and never answered",
        ),
        hidden(sent_to=()),
        example("-----BEGIN PRIVATE KEY-----"),
    ]


class CertificateShown(Shown):
    """The certificate of a domain that is served now. Its key is never answered."""

    origin: Annotated[
        Literal["NONE", "ACME", "UPLOADED"], Meta(description="NONE: there is no certificate")
    ] = "NONE"
    names: Annotated[list[str], example(["shop.example.com"])] = []
    issuer: Annotated[str, example("CN=R13,O=Let's Encrypt,C=US")] = ""
    fingerprint: Annotated[str, Meta(description="SHA-256 of the certificate, in hexadecimal")] = ""
    stored_at: Maybe[Timestamp] = absent
    expires_at: Maybe[Timestamp] = absent


class ResolvedName(Shown):
    """What one name server answers about a domain."""

    server: Annotated[str, example("192.0.2.53")]
    addresses: Annotated[list[str], example(["192.0.2.10"])]
    aliases: Annotated[list[str], Meta(description="The names that it stands for (CNAME)"), example([])]
    texts: Annotated[list[str], Meta(description="The texts at `challenge_name`"), example([])]
    problem: str = ""


class PortAnswer(Shown):
    """Whether a public port answers for a domain as this gateway does, asked from this machine."""

    port: Annotated[int, example(80)]
    reached: Annotated[bool, Meta(description="Whether the answer came from the gateway of this Windlass")]
    is_proxied: Annotated[
        bool, Meta(description="Whether a proxy ends TLS, and passes requests on to the gateway")
    ] = False
    redirects_to_itself: Annotated[
        bool,
        Meta(
            description="Whether this proxy passes requests by HTTPS on by HTTP, so that the gateway "
            "redirects visitors to the same address without end"
        ),
    ] = False
    problem: str = ""


class DomainFinding(Shown):
    """One result of the check of a domain."""

    good: bool
    message: Annotated[str, example("Its CNAME record points at this service")]


class DomainCheck(Shown):
    """The diagnosis of a domain, as its records are now."""

    domain: Annotated[str, example("shop.example.com")]
    proved_by: Annotated[
        Literal["", "CNAME", "TXT", "ADDRESS"], Meta(description="The record that proves it now")
    ] = ""
    validation_domain: Annotated[str, example("w3f1c9a0b7d2e4f68a5c1.apps.example.com")]
    challenge_name: Annotated[str, example("_windlass-challenge.shop.example.com")] = ""
    challenge_value: Annotated[str, example("windlass=8c5e2a7d40b19f63")] = ""
    expected_addresses: Annotated[
        list[str],
        Meta(description="The addresses of this machine: those of `validation_domain`"),
        example(["192.0.2.10"]),
    ]
    resolvers: list[ResolvedName]
    caa: Annotated[
        list[str],
        Meta(description="The CAA records that decide which authorities may issue for it"),
        example(["0 issue letsencrypt.org"]),
    ]
    proxy: Annotated[
        Proxy, Meta(description="The CDN or proxy in front of it, as its records or its answers tell")
    ] = ""
    http: Maybe[PortAnswer] = absent
    https: Annotated[
        Maybe[PortAnswer],
        Meta(description="The same by TLS, with the name as SNI; missing without `https_port`"),
    ] = absent
    authority_message: Annotated[
        str, Meta(description="What the authority said to the last order, in its own words")
    ] = ""
    challenge_fetched: Annotated[
        Maybe[bool],
        Meta(
            description="Whether the challenge of the open order was fetched from this gateway; missing if "
            "none waits there"
        ),
    ] = absent
    next_try_at: Maybe[Timestamp] = absent
    findings: list[DomainFinding]


class NameToCheck(Spec):
    """A name that may become a domain of a service."""

    domain: _Name
    use_cdn: Annotated[bool, Meta(description="Whether a CDN will be in front")] = False


class CheckedCustomDomainResponse(Shown):
    """The result of the check of one domain of a service."""

    domain_name: Annotated[str, example("shop.example.com")]
    status: Annotated[
        Literal[
            "RESOLVES_TO_IP",
            "MATCHES_LOAD_BALANCER_HOST",
            "DOMAIN_NOT_CONFIGURED",
            "DOMAIN_LINKED_TO_WRONG_HOST",
            "GENERIC_FAILURE",
        ],
        Meta(description="RESOLVES_TO_IP: it has addresses, as a domain with a CDN needs"),
    ]
    error_details: Maybe[str] = absent


def normalise(spec: CustomDomain) -> None:
    try:
        ascii_name(spec.domain)
    except BadDomain as error:
        raise clash("domain", str(error)) from error
    try:
        target = ascii_name(spec.redirect_to) if spec.redirect_to else ""
    except BadDomain as error:
        raise clash("redirect_to", str(error)) from error
    if target.startswith(WILDCARD_PREFIX):
        raise clash("redirect_to", "write one name, without *: visitors are sent to it")
    if target == ascii_name(spec.domain):
        raise clash("redirect_to", "choose another domain than this one, or leave it empty")


domain = Family(
    "domain",
    CustomDomain,
    parent=has_domains,
    segment="customDomain",
    title="CustomDomain",
    spoken="custom domain",
    group="Custom Domains",
    shown=CustomDomainShown,
    nested=True,
    names="domain",
    verbs=ALL_VERBS,
    normalise=normalise,
    audit=AuditWords(sub_target="CUSTOM_DOMAIN", is_part=True),
    actions=(
        get("status", Itself, "Read its state", "The domain, as after the last look at its records."),
        get(
            "check",
            DomainCheck,
            "Check its records and its way here",
            "Asks each name server, and opens the name as a visitor does. Changes nothing.",
            outside=True,
            also=(503,),
        ),
        get(
            "readCertificate",
            CertificateShown,
            "Read its certificate",
            "The facts, without the key.",
            suffix="/certificate",
        ),
        post(
            "uploadCertificate",
            Itself,
            "Upload a certificate",
            "Takes the place of the present one at once, and ends orders at an authority. The domain has to "
            "be proved. `problem` warns of the end 21 and 7 days before.",
            body=CertificateUpload,
            also=(409,),
        ),
        post(
            "removeCertificate",
            Itself,
            "Remove the uploaded certificate",
            "With `generate_certificate`, one is ordered, and the uploaded one is served until it is there.",
            also=(409,),
        ),
    ),
    about="The name is served once a record proves it: a CNAME record to `validation_domain`, or a TXT "
    "record `challenge_value` at `challenge_name`. A domain that is proved belongs to one service of the "
    "installation.",
)

of_services = Actions(
    has_domains,
    "Custom Domains",
    (
        get(
            "checkCustomDomain",
            list[CheckedCustomDomainResponse],
            "Check the records of its domains",
            "Asks the name servers for each domain.",
            paged=False,
            outside=True,
            also=(503,),
        ),
        post(
            "checkDomain",
            DomainCheck,
            "Check a name before it is added as a domain",
            "Asks each name server for its records, and opens it as a visitor does. Says which records it "
            "would need to lead to this service. Changes nothing.",
            body=NameToCheck,
            only_reads=True,
            outside=True,
            also=(503,),
        ),
    ),
)
