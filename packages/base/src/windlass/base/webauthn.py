"""Checks passkeys (WebAuthn) with the library fido2, which is imported at the first one: 50 ms.

Texts of browsers are Base64url, and the options for them JSON, in the form of `parseCreationOptionsFromJSON`.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

if TYPE_CHECKING:
    from fido2.server import Fido2Server
    from fido2.webauthn import PublicKeyCredentialDescriptor

# What the library raises on bytes that no authenticator has made.
_PARSE_ERRORS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
)


class PasskeyRefused(Exception):
    """The answer is not one of an authenticator to this question. The message is for the log."""


class PasskeyQuestion(Struct, frozen=True):
    options: bytes
    """JSON for `navigator.credentials`."""
    challenge: str


class NewCredential(Struct, frozen=True):
    id: str
    public_key: bytes
    """The public key with the id, in the form of the authenticator."""
    counter: int


class WebAuthn:
    """The relying party: one host, and one origin whose pages may ask for its passkeys."""

    def __init__(self, host: str, origin: str) -> None:
        self._host, self._origin = host, origin
        self._made: Fido2Server | None = None

    @property
    def _server(self) -> Fido2Server:
        from fido2.server import Fido2Server  # noqa: PLC0415 (see above)
        from fido2.webauthn import (  # noqa: PLC0415
            AttestationConveyancePreference,
            PublicKeyCredentialRpEntity,
        )

        if self._made is None:
            # Without a function of ours, the library would take all names below the host, too.
            self._made = Fido2Server(
                PublicKeyCredentialRpEntity(id=self._host, name="Windlass"),
                attestation=AttestationConveyancePreference.NONE,
                verify_origin=lambda origin: origin == self._origin,
            )
        return self._made

    def ask_to_add(self, user: str, name: str, title: str, credential_ids: Sequence[str]) -> PasskeyQuestion:
        """Returns the question for a new passkey. `credential_ids`: ids of credentials that the user has."""
        from fido2.webauthn import (  # noqa: PLC0415 (see above)
            PublicKeyCredentialUserEntity,
            ResidentKeyRequirement,
            UserVerificationRequirement,
        )

        options, state = self._server.register_begin(
            PublicKeyCredentialUserEntity(id=user.encode(), name=name, display_name=title),
            [_credential_descriptor(id) for id in credential_ids],
            resident_key_requirement=ResidentKeyRequirement.PREFERRED,
            user_verification=UserVerificationRequirement.PREFERRED,
        )
        return PasskeyQuestion(_to_json(dict(options)["publicKey"]), state["challenge"])

    def ask_to_sign(
        self, credential_ids: Sequence[str] = (), *, verify_user: bool = False
    ) -> PasskeyQuestion:
        """Returns the question for a signature. `credential_ids`: ids of credentials that may sign; empty:
        any of this host. `verify_user`: whether the authenticator must ask for a PIN or a fingerprint."""
        from fido2.webauthn import UserVerificationRequirement  # noqa: PLC0415 (see above)

        options, state = self._server.authenticate_begin(
            [_credential_descriptor(id) for id in credential_ids] or None,
            user_verification=UserVerificationRequirement.REQUIRED if verify_user else None,
        )
        return PasskeyQuestion(_to_json(dict(options)["publicKey"]), state["challenge"])

    def read_added(self, challenge: str, id: str, client_data: str, attestation: str) -> NewCredential:
        """Returns the credential that an authenticator has made. Raises PasskeyRefused."""
        with _translated_refusals():
            _refuse_frames(client_data)
            response = {"clientDataJSON": client_data, "attestationObject": attestation}
            state = {"challenge": challenge, "user_verification": None}
            data = self._server.register_complete(state, _credential_response(id, response))
            known = data.credential_data
            if known is None or to_base64url(known.credential_id) != id:
                raise ValueError("the credential is not the one that was attested")
            if type(known.public_key).__name__ == "UnsupportedKey":
                raise ValueError("the algorithm of the key is not supported")
            return NewCredential(id, bytes(known), data.counter)

    def read_signed(
        self,
        challenge: str,
        public_key: bytes,
        id: str,
        client_data: str,
        authenticator_data: str,
        signature: str,
        *,
        verify_user: bool,
    ) -> int:
        """Returns the counter of an answer with a right signature. Raises PasskeyRefused.

        `public_key`: that of `NewCredential`; `verify_user`: as in `ask_to_sign`.
        """
        from fido2.webauthn import (  # noqa: PLC0415 (see above)
            AttestedCredentialData,
            AuthenticatorData,
            UserVerificationRequirement,
        )

        with _translated_refusals():
            _refuse_frames(client_data)
            state = {
                "challenge": challenge,
                "user_verification": UserVerificationRequirement.REQUIRED if verify_user else None,
            }
            response = {
                "clientDataJSON": client_data,
                "authenticatorData": authenticator_data,
                "signature": signature,
            }
            self._server.authenticate_complete(
                state, [AttestedCredentialData(public_key)], _credential_response(id, response)
            )
            return AuthenticatorData(from_base64url(authenticator_data)).counter


@contextmanager
def _translated_refusals() -> Iterator[None]:
    try:
        yield
    except _PARSE_ERRORS as error:
        raise PasskeyRefused(str(error) or type(error).__name__) from error


def _refuse_frames(client_data: str) -> None:
    """Refuses answers to a page in a frame of another site, which the library takes."""
    if json.loads(from_base64url(client_data)).get("crossOrigin", False) is not False:
        raise ValueError("the page is in a frame of another site")


def _credential_response(id: str, response: Mapping[str, str]) -> dict[str, Any]:
    """Returns an answer in the form of browsers (RegistrationResponseJSON, AuthenticationResponseJSON)."""
    return {"id": id, "rawId": id, "type": "public-key", "response": response, "clientExtensionResults": {}}


def _credential_descriptor(id: str) -> PublicKeyCredentialDescriptor:
    from fido2.webauthn import (  # noqa: PLC0415 (see above)
        PublicKeyCredentialDescriptor,
        PublicKeyCredentialType,
    )

    return PublicKeyCredentialDescriptor(type=PublicKeyCredentialType.PUBLIC_KEY, id=from_base64url(id))


def _to_json(options: object) -> bytes:
    return json.dumps(options, default=dict).encode()


def from_base64url(text: str) -> bytes:
    """Decodes Base64url without padding. Raises ValueError."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def to_base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
