"""The documents of an ACME authority, as far as they are read. Unknown fields are ignored."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

MAX_REFUSAL_LENGTH: Final = 1000
"""The most characters of a refusal that are kept and shown."""


class AcmeProblem(Struct, frozen=True):
    """A refusal in the words of the authority (RFC 7807)."""

    type: str = ""
    detail: str = ""
    status: int = 0
    subproblems: tuple[AcmeProblem, ...] = ()

    @property
    def name(self) -> str:
        return self.type.rpartition(":")[2]

    @property
    def message(self) -> str:
        """The detail and those of its parts, cut to what is shown."""
        details = [self.detail, *(part.detail for part in self.subproblems)]
        words = " ".join(dict.fromkeys(text.strip() for text in details if text.strip())) or self.name
        return words if len(words) <= MAX_REFUSAL_LENGTH else f"{words[: MAX_REFUSAL_LENGTH - 1]}…"


class DirectoryTerms(Struct, frozen=True):
    externalAccountRequired: bool = False


class Directory(Struct, frozen=True):
    newNonce: str
    newAccount: str
    newOrder: str
    renewalInfo: str = ""
    meta: DirectoryTerms = DirectoryTerms()


class Identifier(Struct, frozen=True):
    type: str
    value: str


class AcmeChallenge(Struct, frozen=True):
    type: str
    url: str
    status: str = "pending"
    token: str = ""
    error: AcmeProblem | None = None


class Authorization(Struct, frozen=True):
    identifier: Identifier
    status: str
    challenges: tuple[AcmeChallenge, ...] = ()

    def challenge(self, type: str) -> AcmeChallenge | None:
        return next((challenge for challenge in self.challenges if challenge.type == type), None)

    @property
    def refusal(self) -> str:
        """Why the authority could not verify the name, in its own words; empty if there is no reason."""
        problems = [challenge.error.message for challenge in self.challenges if challenge.error]
        return problems[0] if problems else ""


class AcmeOrder(Struct, frozen=True):
    status: str
    authorizations: tuple[str, ...] = ()
    finalize: str = ""
    certificate: str = ""
    error: AcmeProblem | None = None
    url: str = ""
    """The address of the order. The authority sends it as a header."""
    retry_after: float = 0.0
    """The seconds to wait before the order is read again, if the authority names them."""


class SuggestedWindow(Struct, frozen=True):
    start: str
    end: str


class RenewalInfo(Struct, frozen=True):
    suggestedWindow: SuggestedWindow
    explanationURL: str = ""
    retry_after: float = field(default=0.0)
