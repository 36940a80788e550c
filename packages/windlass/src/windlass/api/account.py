"""The caller's account: its identity, its browser sessions, and the ways to sign in.

These paths are not in the registry of operations, because some of them need no caller, set cookies, or
redirect to other servers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar
from urllib.parse import parse_qs

import msgspec
from msgspec import Meta

from windlass.api.account_document import (
    ANSWER_PATH,
    BROWSER_SESSION,
    LINK_PATH,
    PASSKEY_CHALLENGE,
    PASSKEY_PATH,
    PASSKEYS_PATH,
    PASSWORD,
    PASSWORD_LINK,
    PASSWORD_RESET,
    PROVIDERS_PATH,
    SECOND_FACTOR,
    SESSION_PATH,
    START_PATH,
)
from windlass.api.answers import Header, HttpAnswer
from windlass.api.body import parse_body
from windlass.api.body_memory import BodyMemory
from windlass.api.callers import Callers
from windlass.api.cookies import Cookies
from windlass.api.limits import subject_of_address
from windlass.api.requests import Receive, Request, receive_body
from windlass.api.router import allow_header
from windlass.api.wrong_paths import not_allowed
from windlass.base.clock import stamp
from windlass.base.errors import Failure, Forbidden, Invalid, Unauthorized
from windlass.base.log import log
from windlass.control.context.call import encode
from windlass.control.context.context import Context
from windlass.control.people.account import account_of
from windlass.control.people.attempts import KnownBrowser, read_browser, seal_browser
from windlass.control.people.authenticate import Authenticator
from windlass.control.people.browser_sessions import (
    NewBrowserSession,
    create_link,
    end_other_sessions,
    end_session,
    open_as,
    open_with_link,
    sessions_of,
)
from windlass.control.people.passkey_sign_in import PasskeySignIn
from windlass.control.people.passkeys import PasskeyAnswer, Passkeys, origin_of_passkeys
from windlass.control.people.password_hashes import MAX_PASSWORD_LENGTH
from windlass.control.people.password_sign_in import (
    NextStep,
    PasswordSignIn,
    SecondProof,
    SignedIn,
)
from windlass.control.people.provider_protocol import SignInFailed, shown_providers
from windlass.control.people.sign_in import ProviderAnswer, SignIn
from windlass.core.access import Actor
from windlass.core.declare.spec import Spec

_log = log("sign-in")
T = TypeVar("T", bound=Spec)
Answering = Callable[[Request, str, Receive], Awaitable[HttpAnswer]]


_Code = Annotated[str, Meta(max_length=255)]
_Address = Annotated[str, Meta(max_length=254)]
_Password = Annotated[str, Meta(max_length=MAX_PASSWORD_LENGTH)]
_Name = Annotated[str, Meta(max_length=255)]


_Base64 = Annotated[str, Meta(max_length=16_384)]


class SentPasskey(Spec):
    """What an authenticator has answered, in Base64url, with the challenge as it was sent."""

    challenge: _Base64
    credential: _Base64
    client_data: _Base64
    attestation: _Base64 = ""
    authenticator_data: _Base64 = ""
    signature: _Base64 = ""


class NewPasskey(Spec):
    passkey: SentPasskey
    name: _Name = ""


class SignInCode(Spec):
    """The body of a request that opens a browser session. Without a code and a password, the request must
    carry an API token."""

    code: _Code = ""
    email: _Address = ""
    password: _Password = ""
    second_factor: _Code = ""
    passkey: SentPasskey | None = None


class LinkCode(Spec):
    code: _Code


class UsedLink(Spec):
    code: _Code
    password: _Password
    name: _Name = ""
    second_factor: _Code = ""
    passkey: SentPasskey | None = None
    remove_passkeys: bool = False


class PresentPassword(Spec):
    password: _Password


class FactorCode(Spec):
    second_factor: _Code


class ForgottenPassword(Spec):
    email: _Address


class NewPassword(Spec):
    password: _Password
    new_password: _Password


class AccountName(Spec):
    name: _Name


class AccountRequests:
    def __init__(
        self, ctx: Context, callers: Callers, authenticator: Authenticator, memory: BodyMemory
    ) -> None:
        self._ctx, self._callers, self._memory = ctx, callers, memory
        self._sign_in = SignIn(ctx, authenticator)
        passkeys = Passkeys(ctx)
        self._passwords = PasswordSignIn(ctx, authenticator, passkeys)
        self._passkeys = PasskeySignIn(ctx, authenticator, passkeys, self._passwords)
        self._cookies = Cookies(ctx.settings.url)
        self._routes: dict[str, dict[str, tuple[str, Answering]]] = {
            "/account": {
                "GET": ("getAccount", self._get_account),
                "PATCH": ("editAccount", self._edit_account),
            },
            PASSWORD: {"PUT": ("changePassword", self._change_password)},
            PASSWORD_LINK: {
                "POST": ("readPasswordLink", self._read_link),
                "PUT": ("usePasswordLink", self._use_link),
            },
            SECOND_FACTOR: {
                "POST": ("beginSecondFactor", self._begin_factor),
                "PUT": ("confirmSecondFactor", self._confirm_factor),
                "DELETE": ("removeSecondFactor", self._remove_factor),
            },
            PASSKEYS_PATH: {
                "POST": ("beginPasskey", self._begin_passkey),
                "PUT": ("addPasskey", self._add_passkey),
            },
            PASSKEY_PATH: {
                "PATCH": ("renamePasskey", self._rename_passkey),
                "DELETE": ("removePasskey", self._remove_passkey),
            },
            PASSKEY_CHALLENGE: {"POST": ("askForPasskey", self._ask_for_passkey)},
            PASSWORD_RESET: {"POST": ("askForPasswordReset", self._ask_for_reset)},
            BROWSER_SESSION: {
                "GET": ("listBrowserSessions", self._list_sessions),
                "POST": ("openBrowserSession", self._open_session),
                "DELETE": ("endOtherBrowserSessions", self._end_other_sessions),
            },
            SESSION_PATH: {"DELETE": ("endBrowserSession", self._end_session)},
            LINK_PATH: {"POST": ("createSignInLink", self._create_link)},
            PROVIDERS_PATH: {"GET": ("listSignInProviders", self._list_providers)},
            START_PATH: {"GET": ("startSignIn", self._start)},
            ANSWER_PATH: {"GET": ("finishSignIn", self._finish)},
        }

    def has(self, path: str) -> bool:
        return self._find(path) is not None

    async def answer(self, request: Request, receive: Receive) -> HttpAnswer:
        route = self._find(request.path)
        assert route is not None
        methods, word = route
        if request.method == "OPTIONS":
            self._callers.exempt(request)
            return HttpAnswer(204, b"", ((b"allow", allow_header(methods).encode()),))
        chosen = methods.get("GET" if request.method == "HEAD" else request.method)
        if chosen is None:
            await self._callers.identify(request)
            raise not_allowed(request.method, allow_header(methods))
        request.operation, answering = chosen
        return await answering(request, word, receive)

    def _find(self, path: str) -> tuple[dict[str, tuple[str, Answering]], str] | None:
        """Returns the operations of a path by method, and the value of the path's parameter."""
        if not path.startswith("/account"):
            return None
        if path in self._routes:
            return self._routes[path], ""
        for pattern, methods in self._routes.items():
            before, brace, after = pattern.partition("{id}")
            word = path[len(before) : len(path) - len(after)]
            is_there = path.startswith(before) and path.endswith(after)
            if brace and is_there and 0 < len(word) <= 64 and "/" not in word:
                return methods, word
        return None

    async def _caller(self, request: Request) -> Actor:
        actor = await self._callers.identify(request)
        if isinstance(actor, Failure):
            raise actor
        return actor

    # The caller and its sessions

    async def _get_account(self, request: Request, _: str, receive: Receive) -> HttpAnswer:
        return HttpAnswer(200, encode(await account_of(self._ctx, await self._caller(request))))

    async def _list_sessions(self, request: Request, _: str, receive: Receive) -> HttpAnswer:
        actor = await self._caller(request)
        return HttpAnswer(200, encode({"results": await sessions_of(self._ctx, actor)}))

    async def _end_session(self, request: Request, id: str, receive: Receive) -> HttpAnswer:
        actor = await self._caller(request)
        id = actor.session if id == "current" else id
        await self._ctx.store.write(lambda tx: end_session(self._ctx, tx, actor, id, request.source))
        _log.info(
            "a session in a browser was ended", extra=_log_fields(request, actor.name) | {"session": id}
        )
        gone = (self._cookies.no_session(),) if id == actor.session else ()
        return HttpAnswer(204, b"", gone)

    async def _end_other_sessions(self, request: Request, _: str, receive: Receive) -> HttpAnswer:
        actor = await self._caller(request)
        await self._ctx.store.write(lambda tx: end_other_sessions(self._ctx, tx, actor, request.source))
        return HttpAnswer(204, b"")

    async def _create_link(self, request: Request, _: str, receive: Receive) -> HttpAnswer:
        actor = await self._caller(request)
        code, ends = await self._ctx.store.write(lambda tx: create_link(self._ctx, tx, actor))
        # The code is in the URL fragment, which browsers do not send to servers, so that it appears in no
        # log.
        link = {"url": f"{self._ctx.settings.url}/console/#code={code}", "expires_at": stamp(ends)}
        return HttpAnswer(201, encode(link))

    async def _open_session(self, request: Request, _: str, receive: Receive) -> HttpAnswer:
        sent = await self._sent_by_page(request, receive, SignInCode)
        if sent.passkey is not None and not sent.email:
            return await self._open_with_passkey(request, sent, sent.passkey)
        if sent.email or sent.password:
            return await self._open_with_password(request, sent)
        if not sent.code:
            if request.headers.get(b"authorization") is None:
                await self._callers.identify(request)  # charged to the address, to limit guessing
                raise Invalid(
                    "code: is required, or email and password, or an API token in the header Authorization"
                )
            actor = await self._caller(request)
            if actor.token is None:
                raise Invalid("Authorization: must be an API token, and no JWT")
            opened = await self._ctx.store.write(lambda tx: open_as(self._ctx, tx, actor, request.source))
            way = "token"
        else:
            try:
                opened = await self._ctx.store.write(
                    lambda tx: open_with_link(self._ctx, tx, sent.code, request.source)
                )
            except Unauthorized:
                self._callers.count_failure(request)
                raise
            self._callers.exempt(request)
            way = "link"
        return self._signed_in(request, opened, way)

    def _signed_in(
        self, request: Request, session: NewBrowserSession, way: str, *cookies: Header, **more: object
    ) -> HttpAnswer:
        _note_sign_in(request, session, way)
        answer = {"page_key": session.page_key, "ends_at": stamp(session.ends_at), **more}
        return HttpAnswer(201, encode(answer), (self._cookies.session(session), *cookies))

    async def _sent_by_page(self, request: Request, receive: Receive, struct_type: type[T]) -> T:
        """Returns the body of a request that changes who is signed in, unless a page of another origin
        sent it."""
        if _is_sent_by_another_site(request):
            self._callers.exempt(request)
            raise Forbidden("Open /console and sign in there: a page of another address asked for this")
        return await self._sent(request, receive, struct_type)

    async def _sent(self, request: Request, receive: Receive, struct_type: type[T]) -> T:
        body = await receive_body(request, receive, self._memory, subject_of_address(request.client))
        sent = parse_body(body, request.headers.get(b"content-type"), struct_type)
        assert isinstance(sent, struct_type)
        return sent

    # Passwords

    async def _open_with_password(self, request: Request, code: SignInCode) -> HttpAnswer:
        if code.code or request.headers.get(b"authorization") is not None:
            raise Invalid("email: must be sent without a code, and without the header Authorization")
        self._callers.count_failure(request)
        browser = read_browser(self._ctx, self._cookies.known_of(request))
        client = subject_of_address(request.client)
        opened = await self._passwords.sign_in(
            code.email, code.password, _second_of(code), client, browser, request.source
        )
        return self._signed_in_with_password(request, opened, browser, "password")

    def _signed_in_with_password(
        self, request: Request, sign_in: SignedIn | NextStep, browser: KnownBrowser, way: str
    ) -> HttpAnswer:
        if isinstance(sign_in, NextStep):
            return HttpAnswer(200, encode(sign_in))
        known = seal_browser(self._ctx, browser.with_person(sign_in.account))
        more = {"recovery_codes": sign_in.recovery_codes} if sign_in.recovery_codes else {}
        return self._signed_in(request, sign_in.session, way, self._cookies.known(known), **more)

    async def _read_link(self, request: Request, _: str, receive: Receive) -> HttpAnswer:
        self._callers.count_failure(request)
        sent = await self._sent(request, receive, LinkCode)
        return HttpAnswer(200, encode(await self._passwords.describe_link(sent.code)))

    async def _use_link(self, request: Request, _: str, receive: Receive) -> HttpAnswer:
        self._callers.count_failure(request)
        sent = await self._sent_by_page(request, receive, UsedLink)
        browser = read_browser(self._ctx, self._cookies.known_of(request))
        client = subject_of_address(request.client)
        opened = await self._passwords.use_link(
            sent.code,
            sent.name,
            sent.password,
            _second_of(sent),
            client,
            request.source,
            removes_passkeys=sent.remove_passkeys,
        )
        return self._signed_in_with_password(request, opened, browser, "password link")

    async def _ask_for_reset(self, request: Request, _: str, receive: Receive) -> HttpAnswer:
        self._callers.count_failure(request)
        sent = await self._sent_by_page(request, receive, ForgottenPassword)
        client = subject_of_address(request.client)
        await self._passwords.ask_for_reset(sent.email, client, request.source)
        return HttpAnswer(202, b"")

    async def _change_password(self, request: Request, _: str, receive: Receive) -> HttpAnswer:
        actor = await self._caller(request)
        sent = await self._sent(request, receive, NewPassword)
        await self._passwords.change_password(actor, sent.password, sent.new_password, request.source)
        return HttpAnswer(204, b"")

    async def _begin_factor(self, request: Request, _: str, receive: Receive) -> HttpAnswer:
        actor = await self._caller(request)
        sent = await self._sent(request, receive, PresentPassword)
        return HttpAnswer(201, encode(await self._passwords.begin_factor(actor, sent.password)))

    async def _confirm_factor(self, request: Request, _: str, receive: Receive) -> HttpAnswer:
        actor = await self._caller(request)
        sent = await self._sent(request, receive, FactorCode)
        codes = await self._passwords.confirm_factor(actor, sent.second_factor, request.source)
        return HttpAnswer(200, encode({"recovery_codes": codes}))

    async def _remove_factor(self, request: Request, _: str, receive: Receive) -> HttpAnswer:
        actor = await self._caller(request)
        sent = await self._sent(request, receive, PresentPassword)
        await self._passwords.remove_factor(actor, sent.password, request.source)
        return HttpAnswer(204, b"")

    # Passkeys

    async def _ask_for_passkey(self, request: Request, _: str, receive: Receive) -> HttpAnswer:
        self._callers.count_failure(request)
        return HttpAnswer(201, encode(self._passkeys.challenge()))

    async def _open_with_passkey(
        self, request: Request, code: SignInCode, passkey: SentPasskey
    ) -> HttpAnswer:
        if code.code or code.password or request.headers.get(b"authorization") is not None:
            raise Invalid(
                "passkey: must be sent alone or with email and password, without the header Authorization"
            )
        self._callers.count_failure(request)
        browser = read_browser(self._ctx, self._cookies.known_of(request))
        client = subject_of_address(request.client)
        opened = await self._passkeys.sign_in(_answer_of(passkey), client, request.source)
        return self._signed_in_with_password(request, opened, browser, "passkey")

    async def _begin_passkey(self, request: Request, _: str, receive: Receive) -> HttpAnswer:
        actor = await self._caller(request)
        sent = await self._sent(request, receive, PresentPassword)
        return HttpAnswer(201, encode(await self._passkeys.begin_adding(actor, sent.password)))

    async def _add_passkey(self, request: Request, _: str, receive: Receive) -> HttpAnswer:
        actor = await self._caller(request)
        sent = await self._sent(request, receive, NewPasskey)
        codes = await self._passkeys.add(actor, sent.name, _answer_of(sent.passkey), request.source)
        return HttpAnswer(200, encode({"recovery_codes": codes}))

    async def _rename_passkey(self, request: Request, id: str, receive: Receive) -> HttpAnswer:
        actor = await self._caller(request)
        sent = await self._sent(request, receive, AccountName)
        await self._passkeys.rename(actor, id, sent.name)
        return HttpAnswer(204, b"")

    async def _remove_passkey(self, request: Request, id: str, receive: Receive) -> HttpAnswer:
        actor = await self._caller(request)
        sent = await self._sent(request, receive, PresentPassword)
        await self._passkeys.remove(actor, id, sent.password, request.source)
        return HttpAnswer(204, b"")

    async def _edit_account(self, request: Request, _: str, receive: Receive) -> HttpAnswer:
        actor = await self._caller(request)
        sent = await self._sent(request, receive, AccountName)
        await self._passwords.rename(actor, sent.name, request.source)
        return HttpAnswer(200, encode(await account_of(self._ctx, actor)))

    async def stop(self) -> None:
        await self._passwords.stop()

    # Providers

    async def _list_providers(self, request: Request, _: str, receive: Receive) -> HttpAnswer:
        self._callers.exempt(request)
        shown = shown_providers(self._ctx.settings)
        ways = {
            "results": [provider for provider in shown if provider.is_set_up],
            "further": [provider for provider in shown if not provider.is_set_up],
            "password": self._passwords.is_offered,
            "passkey_origin": origin_of_passkeys(self._ctx.settings),
            "password_reset": self._passwords.sends_mail,
            "can_invite": self._passwords.is_offered or self._ctx.settings.has_provider,
        }
        return HttpAnswer(200, encode(ways))

    async def _start(self, request: Request, name: str, receive: Receive) -> HttpAnswer:
        if _is_sent_by_another_site(request):
            self._callers.exempt(request)
            return _redirect("/console/")
        # Each start sends a request to the provider, so it is charged to the address.
        self._callers.count_failure(request)
        try:
            started = await self._sign_in.start(name)
        except SignInFailed as failure:
            return _redirect(f"/console/#problem={failure.word}")
        return _redirect(started.url, self._cookies.memory(started.memory))

    async def _finish(self, request: Request, name: str, receive: Receive) -> HttpAnswer:
        self._callers.count_failure(request)
        answer = _answer_in(request.scope["query_string"])
        over = self._cookies.no_memory()
        try:
            opened = await self._sign_in.finish(
                name, answer, self._cookies.memory_of(request), request.source
            )
        except SignInFailed as failure:
            return _redirect(f"/console/#problem={failure.word}", over)
        _note_sign_in(request, opened, f"provider {name}")
        return _redirect(f"/console/#key={opened.page_key}", over, self._cookies.session(opened))


def _note_sign_in(request: Request, session: NewBrowserSession, way: str) -> None:
    """Logs that a person has signed in, without secrets of the session or the link."""
    _log.info("signed in", extra=_log_fields(request, session.holder_name) | {"way": way})


def _log_fields(request: Request, name: str) -> dict[str, str]:
    return {"caller": name, "address": request.client, "request_id": request.id.decode()}


def _answer_of(sent_passkey: SentPasskey) -> PasskeyAnswer:
    return PasskeyAnswer(**msgspec.structs.asdict(sent_passkey))


def _second_of(request_body: SignInCode | UsedLink) -> SecondProof:
    return SecondProof(
        request_body.second_factor, _answer_of(request_body.passkey) if request_body.passkey else None
    )


def _is_sent_by_another_site(request: Request) -> bool:
    """Returns whether the browser's headers show that a page of another origin made this request.

    Such a page, for example of an application on the same domain, could otherwise replace the session of the
    person who opens it.
    """
    return request.headers.get(b"sec-fetch-site", b"none") not in {b"same-origin", b"none"}


def _answer_in(query: bytes) -> ProviderAnswer:
    """Parses the response of a provider from a query string; empty if the query string is invalid."""
    try:
        fields = parse_qs(query.decode("latin-1"), max_num_fields=20)
    except ValueError:
        return ProviderAnswer()
    return ProviderAnswer(**{name: fields.get(name, [""])[0] for name in ProviderAnswer.__struct_fields__})


def _redirect(url: str, *cookies: Header) -> HttpAnswer:
    headers = ((b"location", url.encode()), (b"referrer-policy", b"no-referrer"), *cookies)
    return HttpAnswer(302, b"", headers)
