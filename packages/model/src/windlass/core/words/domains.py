"""Domain names of users: their form, and the names that Windlass derives from them. Pure."""

from __future__ import annotations

import re
from typing import Final

WILDCARD_PREFIX: Final = "*."
"""The beginning of a name that stands for all names with one additional label."""
MAX_NAME_LENGTH: Final = 233
"""The longest name below which there is room for the label of the TXT record that proves it."""
_MAX_INPUT_LENGTH: Final = 1024
CHALLENGE_LABEL: Final = "_windlass-challenge"
"""The label of the TXT record that proves a domain."""
_LABEL_PATTERN: Final = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)")
_NUMBER_PATTERN: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_RESERVED_ENDINGS: Final = frozenset(
    {"localhost", "local", "internal", "invalid", "test", "onion", "arpa", "alt"}
)
"""Endings that belong to nobody in the public name system (RFC 6761, RFC 6762, RFC 9476)."""


class BadDomain(ValueError):
    """The text is no domain that can be served. The message says what to do."""


def ascii_name(text: str) -> str:
    """Returns a domain in lower case and in its ASCII form (`xn--…`), with `*.` if it begins with it. Raises
    BadDomain."""
    if len(text) > _MAX_INPUT_LENGTH:
        raise BadDomain(f"shorten it: a name has at most {MAX_NAME_LENGTH} characters")
    name = text.removeprefix(WILDCARD_PREFIX)
    if not name or name != name.strip() or name.endswith("."):
        raise BadDomain(
            "write the name alone, such as shop.example.com, without blanks and without a final dot"
        )
    if "/" in name or ":" in name or "@" in name:
        raise BadDomain("write the name alone, such as shop.example.com, without https://, port or path")
    if "*" in name:
        raise BadDomain("write * only as the first label, as in *.example.com")
    name = name.lower() if name.isascii() else _encode(name)
    labels = name.split(".")
    if len(name) + (len(WILDCARD_PREFIX) if text.startswith(WILDCARD_PREFIX) else 0) > MAX_NAME_LENGTH:
        raise BadDomain(f"shorten it: a name has at most {MAX_NAME_LENGTH} characters")
    if not all(_LABEL_PATTERN.fullmatch(label) for label in labels):
        raise BadDomain(
            "write labels of letters, digits and hyphens, each of at most 63 characters, as in "
            "shop.example.com"
        )
    if _NUMBER_PATTERN.fullmatch(labels[-1]):
        raise BadDomain("name a domain instead of an address: certificates and routes belong to names")
    if len(labels) < 2:
        raise BadDomain("write the whole name, such as shop.example.com")
    if labels[-1] in _RESERVED_ENDINGS:
        raise BadDomain(f"use a public name: no name server can prove who owns names below {labels[-1]}")
    return f"{WILDCARD_PREFIX}{name}" if text.startswith(WILDCARD_PREFIX) else name


def _encode(name: str) -> str:
    import idna  # noqa: PLC0415 (its tables are needed only for names that are not ASCII)

    try:
        return idna.encode(name, uts46=True, std3_rules=True).decode()
    except idna.IDNAError as error:
        raise BadDomain(f"use characters that domain names may have: {error}") from error


def is_at_or_below(name: str, domain: str) -> bool:
    """Returns whether a name is a domain or below it. Both are in ASCII form."""
    plain = name.removeprefix(WILDCARD_PREFIX)
    return plain == domain or plain.endswith(f".{domain}")


def challenge_name(name: str) -> str:
    """Returns the name of the TXT record that proves a domain."""
    return f"{CHALLENGE_LABEL}.{name.removeprefix(WILDCARD_PREFIX)}"
