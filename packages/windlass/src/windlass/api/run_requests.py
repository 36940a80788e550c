"""The paths at which runs of services reach this server, for example to store their state. Service kinds
declare them.

These paths are not in the registry of operations, because API clients have no credentials for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import parse_qs

from windlass.api.answers import HttpAnswer
from windlass.api.body_memory import BodyMemory
from windlass.api.callers import Callers
from windlass.api.requests import Receive, Request, receive_body
from windlass.base.errors import Unauthorized
from windlass.control.context.context import Context
from windlass.control.kinds.run_api import RunApi, RunMessage


class RunRequests:
    def __init__(self, ctx: Context, callers: Callers, memory: BodyMemory, apis: Iterable[RunApi]) -> None:
        self._ctx, self._callers, self._memory = ctx, callers, memory
        self._apis = {api.word: api for api in apis}

    def has(self, path: str) -> bool:
        word, slash, _ = path.removeprefix("/").partition("/")
        return bool(slash) and word in self._apis

    async def answer(self, request: Request, receive: Receive) -> HttpAnswer:
        word, service, *rest = (*request.path.removeprefix("/").split("/", 2), "")
        api, what = self._apis[word], rest[0]
        request.operation = api.operation
        try:
            run = await api.find_run(self._ctx, service, what, request.headers.get(b"authorization"))
        except Unauthorized:
            self._callers.count_failure(request)
            raise
        self._callers.exempt(request)
        limit = api.most_bytes(self._ctx.settings)
        body = await receive_body(request, receive, self._memory, run.org, f"run:{service}", limit)
        query = parse_qs(request.scope["query_string"].decode("latin-1"))
        sent = RunMessage(
            service, request.method, what, {name: values[0] for name, values in query.items()}, body
        )
        answer = await api.answer(self._ctx, run, sent)
        return HttpAnswer(answer.status, answer.body)
