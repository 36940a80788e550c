"""Requests of git at the repositories of applications, `/git/<application>.git`: push, clone and fetch.

This is git's smart HTTP protocol, see gitprotocol-http(5). `control.services.pushes` decides about pushes,
and `sources.push` runs git. Failures are plain text, which git shows to its user.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, MutableMapping
from contextlib import ExitStack, aclosing
from typing import Any, Final
from urllib.parse import parse_qs

from windlass.api.answers import Header, HttpAnswer
from windlass.api.callers import Callers
from windlass.api.quota import StreamQuota
from windlass.api.requests import LONG_BODY, Receive, Request
from windlass.api.wrong_paths import not_allowed, nothing_at
from windlass.base.errors import Failure, Forbidden, Invalid, Missing, TooLarge, Unavailable
from windlass.base.log import log
from windlass.base.subprocesses import in_thread
from windlass.control.context.call import Call, Origin
from windlass.control.context.context import Context
from windlass.control.context.git_reader import GitPlaces
from windlass.control.request.permissions import forbidden
from windlass.control.services.pushes import (
    IncomingPush,
    PushRun,
    caller_of,
    judge_push,
    refs_to_push,
    repository_to_fetch,
    repository_to_push,
)
from windlass.core.access import Actor, may_somewhere
from windlass.core.declare.registry import Operation
from windlass.families.application import application
from windlass.sources.push import PackFile, PushHead, PushRefused
from windlass.sources.push.commands import (
    FATAL,
    FLUSH_PACKET,
    OUTPUT,
    HeadReader,
    advertisement,
    head_for_git,
    on_band,
    packet,
    report_of,
)
from windlass.store import Row

_PATH_PATTERN: Final = re.compile(r"/git/([^/]+?)(?:\.git)?(/.*)?")
_PUSH, _FETCH = "git-receive-pack", "git-upload-pack"
_REFS_PATH: Final = "/info/refs"
_LFS_PATH: Final = "/info/lfs"
_TEXT_TYPE: Final = (b"content-type", b"text/plain; charset=utf-8")
_PROTOCOL_PATTERN: Final = re.compile(r"[a-z0-9=:.-]{1,100}")
_MAX_FETCH_REQUEST_BYTES: Final = 16 * 1024 * 1024
"""The number of bytes in the request of a client that fetches: it lists the commits that it has."""
_MAX_TRANSFERS_OF_APPLICATION: Final = 4
"""The number of pushes of one application that may send objects at the same time, and of its fetches."""
_MAX_TRANSFERS_OF_CALLER: Final = 8
"""The number of pushes of one caller that may send objects at the same time, and of its fetches."""
_PUSH_TIMEOUT: Final = 3600.0
"""The number of seconds in which a push has to arrive."""
_log = log("pushes")
_BATCH_BYTES: Final = 1024 * 1024
_SHUTDOWN_MESSAGE: Final = (
    "Windlass stops here. What was received is deployed when it starts again: push again to see the end, or "
    "look with `windlass releases`."
)


class GitRequests:
    def __init__(self, ctx: Context, callers: Callers, quota: StreamQuota) -> None:
        self._ctx, self._callers, self._quota = ctx, callers, quota
        self._runs: set[asyncio.Task[None]] = set()
        self._sending = Counter[str]()
        self._places = GitPlaces()
        self._reads, self._deploys = (
            ctx.registry.handled_by(f"{application.name}.{verb}")[0] for verb in ("read", "deploy")
        )

    def has(self, path: str) -> bool:
        return _PATH_PATTERN.fullmatch(path) is not None

    async def stop(self) -> None:
        for task in self._runs:
            task.cancel()
        await asyncio.gather(*self._runs, return_exceptions=True)

    async def answer(self, request: Request, receive: Receive) -> HttpAnswer:
        try:
            return await self._answer(request, receive)
        except Failure as failure:
            headers = tuple((name.encode(), value.encode()) for name, value in failure.headers.items())
            return HttpAnswer(failure.status, f"{failure.message}\n".encode(), headers, _TEXT_TYPE)

    async def _answer(self, request: Request, receive: Receive) -> HttpAnswer:
        match = _PATH_PATTERN.fullmatch(request.path)
        assert match is not None
        id, rest = match[1], match[2] or ""
        actor = await self._callers.identify_git(request)
        if rest.startswith(_LFS_PATH):
            raise Missing("Push with `git push --no-verify`: Windlass stores no files of Git LFS")
        service, is_list = _service_of(request, rest)
        operation = self._deploys if service == _PUSH else self._reads
        request.operation = operation.id
        call = _call(request, operation, id, actor)
        try:
            if not may_somewhere(actor, operation.need):
                raise forbidden(operation)
            if service == _FETCH:
                return await self._fetch(request, call, receive, is_list=is_list)
            row = await repository_to_push(self._ctx, call)
        except Forbidden as refusal:
            self._callers.security.record_refused(
                actor, operation, request.path, (id,), refusal.message, request.source
            )
            raise
        if is_list:
            with ExitStack() as held:
                await self._places.enter(caller_of(row, call), held)
                body = advertisement(await refs_to_push(self._ctx, row))
            return HttpAnswer(200, body, (), _content_type(f"{_PUSH}-advertisement"))
        return await self._push(request, call, row, receive)

    # Fetching

    async def _fetch(self, request: Request, call: Call, receive: Receive, *, is_list: bool) -> HttpAnswer:
        row = await repository_to_fetch(self._ctx, call)
        protocol = _protocol(request)
        if is_list:
            return await self._list(row, call, protocol)
        with ExitStack() as held:
            if reason := self._enter(_FETCH, row, call, held):
                raise Unavailable(f"Fetch again in a moment: {reason}", {"retry-after": "5"})
            asked = held.enter_context(self._ctx.pushed.spool(row.id))
            size = 0
            async for piece in _Body(request, receive).pieces:
                size += len(piece)
                if size > _MAX_FETCH_REQUEST_BYTES:
                    raise TooLarge("Clone the repository again: this request lists too many commits")
                await in_thread(asked.append, piece)
            await self._places.enter(caller_of(row, call), held)
            held.enter_context(self._quota.take(row.org, call.actor.subject))
            place = held.pop_all()
        stream = self._ctx.pushed.send(row.id, asked, protocol, place.close)
        farewell = on_band(FATAL, _SHUTDOWN_MESSAGE.encode())
        result = _content_type(f"{_FETCH}-result")
        return HttpAnswer(200, b"", (), result, stream, place=place, farewell=farewell)

    async def _list(self, row: Row, call: Call, protocol: str) -> HttpAnswer:
        """Answers with the refs of a repository, piece by piece: they may be many."""
        with ExitStack() as held:
            await self._places.enter(caller_of(row, call), held)
            held.enter_context(self._quota.take(row.org, call.actor.subject))
            place = held.pop_all()
        start = b"" if "version=2" in protocol else packet(f"# service={_FETCH}\n".encode()) + FLUSH_PACKET
        stream = _with_start(start, self._ctx.pushed.advertise(row.id, protocol, place.close))
        farewell = packet(b"ERR " + _SHUTDOWN_MESSAGE.encode())
        kind = _content_type(f"{_FETCH}-advertisement")
        return HttpAnswer(200, b"", (), kind, stream, place=place, farewell=farewell)

    # Pushing

    async def _push(self, request: Request, call: Call, row: Row, receive: Receive) -> HttpAnswer:
        kind = _content_type(f"{_PUSH}-result")
        _allow_long_body(request)
        allowed = await self._callers.still_allowed(request)
        body, reader = _Body(request, receive), HeadReader()
        try:
            head = await _read_head(reader, body.pieces)
        except PushRefused as refused:
            raise Invalid(str(refused)) from refused
        if not head.updates:
            return HttpAnswer(200, FLUSH_PACKET, (), kind)
        with ExitStack() as held:
            with ExitStack() as judging:
                await self._places.enter(caller_of(row, call), judging)
                push = await judge_push(self._ctx, call, row, head)
            if busy := self._enter(_PUSH, row, call, held):
                busy = f"push again in a moment: {busy}"
            if reason := busy or await self._store(push, reader.rest, body, held):
                return HttpAnswer(200, _refused(push, reason), (), kind)
            place = self._quota.take(row.org, call.actor.subject)
            run = PushRun(self._ctx, push, held.pop_all(), self._places, allowed)
        self._runs.add(run.task)
        run.task.add_done_callback(self._end_run)
        farewell = on_band(FATAL, f"{_SHUTDOWN_MESSAGE}\n".encode()) if push.has_bands else FLUSH_PACKET
        return HttpAnswer(200, b"", (), kind, run.answer(), place=place, farewell=farewell)

    def _end_run(self, task: asyncio.Task[None]) -> None:
        self._runs.discard(task)
        if not task.cancelled() and (error := task.exception()):
            _log.error("a push failed", exc_info=error)

    def _enter(self, service: str, row: Row, call: Call, stack: ExitStack) -> str:
        """Counts a push of an application and of its caller until its objects are stored, or a fetch until it
        is answered. Returns why it has to wait; empty if it need not."""
        limits = (
            (f"{service} {row.id}", _MAX_TRANSFERS_OF_APPLICATION, "of this application"),
            (f"{service} by {call.actor.subject}", _MAX_TRANSFERS_OF_CALLER, "of this caller"),
        )
        for key, most, whose in limits:
            if self._sending[key] >= most:
                return f"{most} others {whose} are under way"
        for key, _, _ in limits:
            self._sending[key] += 1
            stack.callback(self._leave, key)
        return ""

    def _leave(self, kind: str) -> None:
        self._sending[kind] -= 1
        if not self._sending[kind]:
            del self._sending[kind]

    async def _store(self, push: IncomingPush, first: bytes, body: _Body, stack: ExitStack) -> str:
        """Writes the objects of a push to a file. Returns why they are refused; empty if they are not.

        A refused push is read to its end, up to a limit, because git shows no answer before that.
        """
        pack: PackFile | None = None
        if push.for_git:
            pack = stack.enter_context(self._ctx.pushed.spool(push.row.id, head_for_git(push.for_git)))
        reason, size, most = "", 0, 2 * self._ctx.pushed.most
        body.is_dropped = pack is None
        async for piece in _batches(first, body.pieces):
            size += len(piece)
            if size > most:
                raise TooLarge(reason or "Push less at once", {"connection": "close"})
            if pack is None or body.is_dropped:
                continue
            try:
                await in_thread(pack.append, piece)
            except PushRefused as refused:
                reason = str(refused)
            except Failure as failure:
                reason = failure.message
            body.is_dropped = bool(reason)
        push.pack = pack
        return reason


def _service_of(request: Request, repository_path: str) -> tuple[str, bool]:
    """Returns the service that a request is for, and whether it asks for the list of refs."""
    if repository_path == _REFS_PATH:
        if request.method not in {"GET", "HEAD"}:
            raise not_allowed(request.method, "GET")
        query = parse_qs(request.scope["query_string"].decode("latin-1"))
        (service,) = query.get("service", [""])[:1]
        if service in (_PUSH, _FETCH):
            return service, True
        raise Invalid("Use a git client with the smart HTTP protocol, git 1.6.6 or newer")
    service = repository_path.removeprefix("/")
    if service not in (_PUSH, _FETCH):
        if repository_path:
            raise nothing_at(request.path)
        raise Invalid("This address is for git: use it with `git push` or `git clone`")
    if request.method != "POST":
        raise not_allowed(request.method, "POST")
    # Pages of other origins cannot send this type, even where a browser knows the password.
    if request.headers.get(b"content-type") != f"application/x-{service}-request".encode():
        raise Invalid(f"Content-Type: must be application/x-{service}-request, as git sends it")
    return service, False


def _call(request: Request, operation: Operation, id: str, actor: Actor) -> Call:
    source = request.source
    return Call(
        operation=operation,
        actor=actor,
        ids=(id,),
        dialect=request.dialect,
        origin=Origin("GIT", source.address, source.user_agent, source.request_id),
        find_trace=lambda: request.trace,
    )


def _protocol(request: Request) -> str:
    """Returns the version of git's protocol that a client requests; empty for the first one."""
    asked = request.text(b"git-protocol") or ""
    return asked if _PROTOCOL_PATTERN.fullmatch(asked) else ""


def _content_type(kind: str) -> Header:
    return b"content-type", f"application/x-{kind}".encode()


def _allow_long_body(request: Request) -> None:
    if allow := (request.scope.get("extensions") or {}).get(LONG_BODY):
        allow()


class _Body:
    """The body of a request, unpacked."""

    def __init__(self, request: Request, receive: Receive) -> None:
        self._receive = receive
        is_packed = request.headers.get(b"content-encoding") in (b"gzip", b"x-gzip")
        self._unpacking = zlib.decompressobj(31) if is_packed else None
        self._until = asyncio.get_running_loop().time() + _PUSH_TIMEOUT
        self.is_dropped = False
        """Whether nobody reads the rest, which is then not unpacked."""
        self.pieces = self._read()

    async def _read(self) -> AsyncGenerator[bytes, None]:
        """Yields the pieces. Raises Invalid if the client disconnects before the end."""
        more = True
        while more:
            message = await self._next()
            data, more = message.get("body", b""), message.get("more_body", False)
            while data and self._unpacking is not None and not self.is_dropped:
                try:
                    # In a thread, because a small piece may become a thousand times as large.
                    piece = await in_thread(self._unpacking.decompress, data, _BATCH_BYTES)
                except zlib.error as error:
                    raise Invalid("Content-Encoding: the body is no gzip") from error
                data = self._unpacking.unconsumed_tail
                if piece:
                    yield piece
            if data:
                yield data

    async def _next(self) -> MutableMapping[str, Any]:
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError as error:
            raise TooLarge(
                f"Push less at once: a push has to arrive within {_PUSH_TIMEOUT / 60:g} minutes",
                {"connection": "close"},
            ) from error
        if message["type"] == "http.disconnect":
            raise Invalid("The request ended before its body did")
        return message


async def _read_head(reader: HeadReader, chunks: AsyncGenerator[bytes, None]) -> PushHead:
    async for piece in chunks:
        if (head := reader.feed(piece)) is not None:
            return head
    raise PushRefused("the push ended before its list of refs did")


async def _batches(first: bytes, chunks: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    """Yields larger pieces made of several small ones, to reduce the number of disk writes."""
    held = bytearray(first)
    async for piece in chunks:
        held += piece
        if len(held) >= _BATCH_BYTES:
            yield bytes(held)
            held.clear()
    if held:
        yield bytes(held)


def _refused(push: IncomingPush, reason: str) -> bytes:
    """Returns the report of a push none of whose objects were stored."""
    report = report_of({update.ref: reason for update in push.head.updates}, unpacked=reason)
    return on_band(OUTPUT, report) + FLUSH_PACKET if push.has_bands else report


async def _with_start(start: bytes, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(chunks):
        if start:
            yield start
        async for piece in chunks:
            yield piece
