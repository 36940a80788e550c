"""The addresses to which container registries send pushes of images.

They need no token. A delivery has the secret of the webhook in its address or in the header Authorization, or
is signed with it. An unknown address and a wrong secret get the same answer. Deliveries do not count against
the budget of the sender's address, because one address sends for all images of a registry.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping
from typing import Final

from windlass.api.answers import HttpAnswer
from windlass.api.callers import Callers
from windlass.api.requests import Receive, Request
from windlass.api.wrong_paths import not_allowed
from windlass.base.errors import Invalid, TooLarge, Unauthorized
from windlass.control.context.call import encode
from windlass.control.context.context import Context
from windlass.control.records.registry_webhooks import REGISTRY_WEBHOOK_PATH, is_webhook_id, secret_of
from windlass.control.services.image_push_intake import MAX_IMAGE_PUSH_BYTES, ImagePushIntake
from windlass.core.words.image_pushes import IMAGE_PUSH_SENTENCES, ImagePushResult
from windlass.registries.push_payloads import read_image_delivery
from windlass.sources.git_servers.signatures import SignatureCheck, SignatureVerdict
from windlass.store.tables.registry_webhooks import RegistryWebhookRow

_ALLOWED_METHOD: Final = "POST"
_REFUSAL: Final = "Check address and secret of the webhook: there is none here, or its secret does not match"
_SCHEMES: Final = (b"bearer ", b"token ")
_BASIC: Final = b"basic "


class RegistryWebhookRequests:
    def __init__(self, ctx: Context, callers: Callers) -> None:
        self._ctx, self._callers = ctx, callers
        self._intake = ImagePushIntake(ctx)

    def has(self, path: str) -> bool:
        return path.startswith(REGISTRY_WEBHOOK_PATH)

    async def answer(self, request: Request, receive: Receive) -> HttpAnswer:
        request.operation = "receiveRegistryWebhook"
        id, _, sent = request.path.removeprefix(REGISTRY_WEBHOOK_PATH).partition("/")
        # The path is logged, and the secret in it must not be.
        request.path = f"{REGISTRY_WEBHOOK_PATH}{id}"
        if request.method != "POST":
            self._callers.count_failure(request)
            raise not_allowed(request.method, _ALLOWED_METHOD)
        webhook = await self._ctx.store.reads.registry_webhooks.get(id) if is_webhook_id(id) else None
        if webhook is None:
            self._callers.count_failure(request)
            raise Unauthorized(_REFUSAL)
        self._callers.exempt(request)
        with self._intake.place(webhook):
            return await self._take(request, receive, webhook, sent.encode())

    async def _take(
        self, request: Request, receive: Receive, webhook: RegistryWebhookRow, data: bytes
    ) -> HttpAnswer:
        secret = secret_of(self._ctx, webhook).encode()
        check = SignatureCheck(request.headers, secret)
        given = [data] if data else _authorization(request.headers)
        has_secret = any(hmac.compare_digest(one, secret) for one in given)
        body = b""
        if has_secret or not check.is_decided:
            body = await _receive(request, receive, check)
        verdict = check.verdict()
        if not has_secret and verdict is not SignatureVerdict.RIGHT:
            is_missing = verdict is SignatureVerdict.MISSING and not given
            await self._intake.refuse(
                webhook, ImagePushResult.NO_SECRET if is_missing else ImagePushResult.WRONG_SECRET
            )
            raise Unauthorized(_REFUSAL)
        result = await self._intake.take(webhook, read_image_delivery(request.headers, body))
        status = 202 if result is ImagePushResult.RECEIVED else 200
        return HttpAnswer(status, encode({"result": result, "message": IMAGE_PUSH_SENTENCES[result]}))


def _authorization(headers: Mapping[bytes, bytes]) -> list[bytes]:
    """Returns the secrets that the header Authorization may have: the header itself, as Harbor sends it, the
    token of a scheme, or the password of a login."""
    header = headers.get(b"authorization", b"").strip()
    if not header:
        return []
    lower = header.lower()
    if lower.startswith(_BASIC):
        try:
            login = base64.b64decode(header[len(_BASIC) :].strip(), validate=True)
        except (binascii.Error, ValueError):
            return [b""]
        return [login.partition(b":")[2]]
    return [next((header[len(scheme) :].strip() for scheme in _SCHEMES if lower.startswith(scheme)), header)]


async def _receive(request: Request, receive: Receive, check: SignatureCheck) -> bytes:
    announced = request.headers.get(b"content-length")
    if announced is not None and int(announced) > MAX_IMAGE_PUSH_BYTES:
        raise _too_large()
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Invalid("The request ended before its body did")
        data = message.get("body", b"")
        check.feed(data)
        body += data
        if len(body) > MAX_IMAGE_PUSH_BYTES:
            raise _too_large()
        if not message.get("more_body", False):
            return bytes(body)


def _too_large() -> TooLarge:
    return TooLarge(f"The body is larger than {MAX_IMAGE_PUSH_BYTES} bytes", {"connection": "close"})
