"""The paths at which runs of Terraform keep their state: an HTTP backend of the program, with locking.

They lie beside the registry: no client has a credential for them, and bodies are as large as a state may be.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs

from windlass.api.answers import HttpAnswer, failure_answer
from windlass.api.callers import Callers
from windlass.api.requests import Receive, Request, receive_body
from windlass.base.errors import Unauthorized
from windlass.control.context.context import Context
from windlass.control.records.terraform_states import LockConflict
from windlass.control.services.terraform_runs import RunMessage, answer_run, find_run

_BEGINNING: Final = "/terraform-run/"
_OVERHEAD: Final = 2
"""A plan holds the state once, and is sent as Base64."""


class TerraformRunRequests:
    def __init__(self, ctx: Context, callers: Callers) -> None:
        self._ctx, self._callers = ctx, callers

    def has(self, path: str) -> bool:
        return path.startswith(_BEGINNING)

    async def answer(self, request: Request, receive: Receive) -> HttpAnswer:
        request.operation = "terraformRun"
        service, _, what = request.path.removeprefix(_BEGINNING).partition("/")
        try:
            run = await find_run(self._ctx, service, what, request.headers.get(b"authorization"))
        except Unauthorized:
            self._callers.count_failure(request)
            raise
        self._callers.exempt(request)
        most = _OVERHEAD * self._ctx.settings.terraform_state_bytes
        body = await receive_body(request.headers, receive, most)
        query = parse_qs(request.scope["query_string"].decode("latin-1"))
        sent = RunMessage(service, request.method, what, query.get("ID", [""])[0], body)
        try:
            return HttpAnswer(200, await answer_run(self._ctx, run, sent))
        except LockConflict as locked:  # the program reads the lock in the body
            return HttpAnswer(locked.status, locked.lock.info) if locked.lock.info else failure_answer(locked)
