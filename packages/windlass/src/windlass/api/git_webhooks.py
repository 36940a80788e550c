"""The addresses to which git servers send pushes.

They need no token: a delivery is signed with the secret of the webhook. An unknown address and a wrong
signature get the same answer. The bodies are hashed as they arrive, and do not count against the budget of
the sender's address, because one address sends for all repositories of a git server.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

from windlass.api.answers import HttpAnswer
from windlass.api.callers import Callers
from windlass.api.requests import Receive, Request
from windlass.api.wrong_paths import not_allowed
from windlass.base.errors import Invalid, TooLarge, Unauthorized
from windlass.control.context.call import encode
from windlass.control.context.context import Context
from windlass.control.records.git_webhooks import WEBHOOK_PATH, is_webhook_id, secret_of
from windlass.control.services.push_intake import (
    MAX_BODY_BYTES,
    MAX_BUFFERED_BYTES,
    MAX_SMALL_BODY_BYTES,
    PushIntake,
    TakenDelivery,
    result_of,
)
from windlass.core.words.git_pushes import RESULT_SENTENCES, PushResult
from windlass.sources.git_servers.payloads import (
    DeliveryHead,
    EventKind,
    PushedBranch,
    read_comment_hint,
    read_head,
    read_pull_number,
    read_pushes,
)
from windlass.sources.git_servers.signatures import SignatureCheck, SignatureVerdict
from windlass.store.tables.git_webhooks import GitWebhookRow

_ALLOWED_METHOD: Final = "POST"
_FORM_TYPE: Final = b"application/x-www-form-urlencoded"
_REFUSAL: Final = (
    "Check address and secret of the webhook: there is none here, or its signature does not match"
)
_LATER_RESULTS: Final = frozenset({PushResult.RECEIVED, PushResult.PULL_REQUEST, PushResult.COMMENT})
"""Results that are not the last ones of a delivery."""
_RESULTS_OF_VERDICTS: Final = {
    SignatureVerdict.WRONG: PushResult.WRONG_SIGNATURE,
    SignatureVerdict.MISSING: PushResult.NO_SIGNATURE,
}


class GitWebhookRequests:
    def __init__(self, ctx: Context, callers: Callers) -> None:
        self._ctx, self._callers = ctx, callers
        self._intake = PushIntake(ctx)

    def has(self, path: str) -> bool:
        return path.startswith(WEBHOOK_PATH)

    async def answer(self, request: Request, receive: Receive) -> HttpAnswer:
        request.operation = "receiveGitWebhook"
        if request.method != "POST":
            self._callers.count_failure(request)
            raise not_allowed(request.method, _ALLOWED_METHOD)
        webhook = await self._find(request.path.removeprefix(WEBHOOK_PATH))
        if webhook is None:
            self._callers.count_failure(request)
            raise Unauthorized(_REFUSAL)
        self._callers.exempt(request)
        with self._intake.place(webhook):
            return await self._take(request, receive, webhook)

    async def _find(self, id: str) -> GitWebhookRow | None:
        return await self._ctx.store.reads.git_webhooks.get(id) if is_webhook_id(id) else None

    async def _take(self, request: Request, receive: Receive, webhook: GitWebhookRow) -> HttpAnswer:
        head = read_head(request.headers)
        check = SignatureCheck(request.headers, secret_of(self._ctx, webhook).encode())
        body, is_whole = b"", False
        if not check.is_decided:
            with ExitStack() as places:
                body, is_whole = await self._receive(request, receive, webhook, check, places)
        verdict = check.verdict()
        if verdict is not SignatureVerdict.RIGHT:
            await self._intake.store(TakenDelivery(webhook, head, _RESULTS_OF_VERDICTS[verdict]))
            raise Unauthorized(_REFUSAL)
        result = await self._store(request, webhook, head, body, is_whole=is_whole)
        status = 202 if result in _LATER_RESULTS else 200
        return HttpAnswer(status, encode({"result": result, "message": RESULT_SENTENCES[result]}))

    async def _store(
        self, request: Request, webhook: GitWebhookRow, head: DeliveryHead, body: bytes, *, is_whole: bool
    ) -> PushResult:
        """Stores a signed delivery. Returns its first result."""
        is_form = request.headers.get(b"content-type", b"").startswith(_FORM_TYPE)
        is_push = head.kind is EventKind.PUSH
        pushes = [*read_pushes(body, is_form=is_form, is_whole=is_whole)] if is_push else []
        result = result_of(head.kind, pushes)
        note = ""
        if head.kind is EventKind.PULL_REQUEST and (pull := read_pull_number(body, is_form=is_form)):
            note = f"#{pull}"
        if head.kind is EventKind.COMMENT and (hint := read_comment_hint(body, is_form=is_form)):
            result, note = PushResult.COMMENT, hint.note
        for number, push in enumerate(pushes or [PushedBranch("", "")]):
            # A delivery of Bitbucket may contain several branches, which are different pushes.
            part = head._replace(id=f"{head.id}:{number}") if number and head.id else head
            await self._intake.store(TakenDelivery(webhook, part, result, push, note))
        return result

    async def _receive(
        self,
        request: Request,
        receive: Receive,
        webhook: GitWebhookRow,
        check: SignatureCheck,
        places: ExitStack,
    ) -> tuple[bytes, bool]:
        """Receives and hashes a body. Returns its beginning, and whether that is the whole body."""
        announced = request.headers.get(b"content-length")
        if announced is not None and int(announced) > MAX_BODY_BYTES:
            raise _too_large()
        kept, length, is_large = bytearray(), 0, False
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Invalid("The request ended before its body did")
            data = message.get("body", b"")
            check.feed(data)
            length += len(data)
            if length > MAX_BODY_BYTES:
                raise _too_large()
            if length > MAX_SMALL_BODY_BYTES and not is_large:
                is_large = True
                places.enter_context(self._intake.large_place(webhook))
            kept += data[: MAX_BUFFERED_BYTES - len(kept)]
            if not message.get("more_body", False):
                return bytes(kept), length == len(kept)


def _too_large() -> TooLarge:
    return TooLarge(f"The body is larger than {MAX_BODY_BYTES} bytes", {"connection": "close"})
