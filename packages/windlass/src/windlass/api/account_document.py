"""The OpenAPI description of the account's paths, which are not in the registry; see `api.account`."""

from __future__ import annotations

from typing import Any, Final

BROWSER_SESSION: Final = "/account/browserSession"
SESSION_PATH: Final = "/account/browserSession/{id}"
LINK_PATH: Final = "/account/signInLink"
PASSWORD: Final = "/account/password"  # noqa: S105 (a path)
PASSWORD_LINK: Final = "/account/passwordLink"  # noqa: S105 (a path)
SECOND_FACTOR: Final = "/account/secondFactor"
PASSKEYS_PATH: Final = "/account/passkey"
PASSKEY_PATH: Final = "/account/passkey/{id}"
PASSKEY_CHALLENGE: Final = "/account/passkeyChallenge"
PASSWORD_RESET: Final = "/account/passwordReset"  # noqa: S105 (a path)
PROVIDERS_PATH: Final = "/account/signInProvider"
PROVIDER_PATH: Final = "/account/signInProvider/{id}"
START_PATH: Final = f"{PROVIDER_PATH}/start"
ANSWER_PATH: Final = f"{PROVIDER_PATH}/answer"

Document = dict[str, Any]
_TEXT_SCHEMA: Final = {"type": "string"}
_TIME_SCHEMA: Final = {"type": "string", "format": "date-time"}
_LIST_SCHEMA: Final = {"type": "array", "items": _TEXT_SCHEMA}
_FLAG_SCHEMA: Final = {"type": "boolean"}
_OPERATIONS_WITH_RULES: Final = {
    "openBrowserSession",
    "createSignInLink",
    "editAccount",
    "changePassword",
    "readPasswordLink",
    "usePasswordLink",
    "askForPasswordReset",
    "beginSecondFactor",
    "confirmSecondFactor",
    "removeSecondFactor",
    "beginPasskey",
    "addPasskey",
    "renamePasskey",
    "removePasskey",
}
"""Operations with a body, or with rules on who may call them."""

_PROVIDER: Final = {
    "type": "object",
    "properties": {
        "name": _TEXT_SCHEMA,
        "title": _TEXT_SCHEMA,
        "callback_url": _TEXT_SCHEMA,
        "is_set_up": _FLAG_SCHEMA,
    },
}

_CHALLENGE: Final = {
    "type": "object",
    "properties": {"challenge": _TEXT_SCHEMA, "options": {"type": "object"}},
}
_BASE64: Final = {"type": "string", "maxLength": 16_384}
_SENT_PASSKEY: Final = {
    "type": "object",
    "properties": {
        "challenge": _BASE64,
        "credential": _BASE64,
        "client_data": _BASE64,
        "attestation": _BASE64,
        "authenticator_data": _BASE64,
        "signature": _BASE64,
    },
    "required": ["challenge", "credential", "client_data"],
}


def paths(headers: Document) -> dict[str, Document]:
    """Returns the path items. `headers` are the headers of every response."""
    return {
        "/account": {
            "get": _operation("getAccount", "Read who is calling", headers, _ACCOUNT_SCHEMA),
            "patch": _with_body(
                _operation(
                    "editAccount",
                    "Change your name",
                    headers,
                    _ACCOUNT_SCHEMA,
                    about="For people who sign in with a password here.",
                ),
                name=_limited(255),
            ),
        },
        PASSWORD: {
            "put": _with_body(
                _operation(
                    "changePassword",
                    "Change your password",
                    headers,
                    status="204",
                    about="Ends all your sessions but the present one.",
                ),
                password=_limited(256),
                new_password=_limited(256),
            )
        },
        PASSWORD_LINK: {
            "post": _with_body(
                _operation(
                    "readPasswordLink",
                    "Read what a link to choose a password is for",
                    headers,
                    _LINK_SHOWN,
                    about="Leaves the link as it is.",
                    is_public=True,
                ),
                code=_limited(255),
            ),
            "put": _with_body(
                _operation(
                    "usePasswordLink",
                    "Choose a password with a link, and sign a browser in",
                    headers,
                    _OPENED_SCHEMA,
                    status="201",
                    about="The link of an invitation makes the person a member. A person who has a "
                    "password here already sends that. The answer sets the cookie of the session. The link "
                    "works once. `remove_passkeys` removes all passkeys of the person but the one that is "
                    "sent, with a new password.",
                    is_public=True,
                ),
                code=_limited(255),
                password=_limited(256),
                name=_limited(255),
                second_factor=_limited(255),
                passkey={**_SENT_PASSKEY, "nullable": True},
                remove_passkeys=_FLAG_SCHEMA,
            ),
        },
        SECOND_FACTOR: {
            "post": _with_body(
                _operation(
                    "beginSecondFactor",
                    "Begin to add an authenticator app",
                    headers,
                    _object(secret=_TEXT_SCHEMA, uri=_TEXT_SCHEMA),
                    status="201",
                    about="The app is needed to sign in after it has confirmed itself with a code.",
                ),
                password=_limited(256),
            ),
            "put": _with_body(
                _operation(
                    "confirmSecondFactor",
                    "Confirm an authenticator app with a code of it",
                    headers,
                    _object(recovery_codes=_LIST_SCHEMA),
                    about="The answer has the recovery codes, which are shown only there. Each works "
                    "once. All your other sessions end.",
                ),
                second_factor=_limited(255),
            ),
            "delete": _with_body(
                _operation("removeSecondFactor", "Remove your authenticator app", headers, status="204"),
                password=_limited(256),
            ),
        },
        PASSKEYS_PATH: {
            "post": _with_body(
                _operation(
                    "beginPasskey",
                    "Begin to add a passkey",
                    headers,
                    _CHALLENGE,
                    status="201",
                    about="For people who sign in with a password here. `options` are for "
                    "`navigator.credentials.create`.",
                ),
                password=_limited(256),
            ),
            "put": _with_body(
                _operation(
                    "addPasskey",
                    "Add a passkey with the answer of its authenticator",
                    headers,
                    _object(recovery_codes=_LIST_SCHEMA),
                    about="The first second factor brings recovery codes, which are shown only in this "
                    "answer. All your other sessions end.",
                ),
                passkey=_SENT_PASSKEY,
                name=_limited(255),
            ),
        },
        PASSKEY_PATH: {
            "patch": _with_body(
                _operation(
                    "renamePasskey", "Rename a passkey", headers, status="204", word="Id of the passkey"
                ),
                name=_limited(255),
            ),
            "delete": _with_body(
                _operation(
                    "removePasskey", "Remove a passkey", headers, status="204", word="Id of the passkey"
                ),
                password=_limited(256),
            ),
        },
        PASSKEY_CHALLENGE: {
            "post": _operation(
                "askForPasskey",
                "Ask for a challenge to sign in with a passkey",
                headers,
                _CHALLENGE,
                status="201",
                about="`options` are for `navigator.credentials.get`. The answer of the authenticator opens "
                "a session, once, within five minutes.",
                is_public=True,
            )
        },
        PASSWORD_RESET: {
            "post": _with_body(
                _operation(
                    "askForPasswordReset",
                    "Have a link to choose a new password mailed",
                    headers,
                    status="202",
                    about="The answer is the same whether somebody has this address or not.",
                    is_public=True,
                ),
                email=_limited(254),
            )
        },
        BROWSER_SESSION: {
            "get": _operation(
                "listBrowserSessions", "List your sessions in browsers", headers, _results(_SESSION_SCHEMA)
            ),
            "post": {
                **_with_body(
                    _operation(
                        "openBrowserSession",
                        "Sign a browser in",
                        headers,
                        _OPENED_SCHEMA,
                        status="201",
                        about="With the code of a link, with the e-mail address and the password of a "
                        "person, with a passkey, or with an API token in Authorization. The answer sets the "
                        "cookie of the session; requests send it with the key in X-Windlass-Page-Key.",
                    ),
                    code=_limited(255),
                    email=_limited(254),
                    password=_limited(256),
                    second_factor=_limited(255),
                    passkey={**_SENT_PASSKEY, "nullable": True},
                ),
                "security": [{}, {"Token": []}],
            },
            "delete": _operation(
                "endOtherBrowserSessions",
                "End all your sessions in browsers but this one",
                headers,
                status="204",
            ),
        },
        SESSION_PATH: {
            "delete": _operation(
                "endBrowserSession",
                "End a session in a browser",
                headers,
                word="Id of the session, or `current`",
                status="204",
            )
        },
        LINK_PATH: {
            "post": _operation(
                "createSignInLink",
                "Create a link that signs a browser in once",
                headers,
                _object(url=_TEXT_SCHEMA, expires_at=_TIME_SCHEMA),
                status="201",
                about="Needs an API token. The link ends after ten minutes.",
            )
        },
        PROVIDERS_PATH: {
            "get": _operation(
                "listSignInProviders",
                "List the ways to sign in",
                headers,
                _object(
                    results=_array_of(_PROVIDER),
                    further=_array_of(_PROVIDER),
                    password=_FLAG_SCHEMA,
                    passkey_origin=_TEXT_SCHEMA,
                    password_reset=_FLAG_SCHEMA,
                    can_invite=_FLAG_SCHEMA,
                ),
                about="The providers, those that can be set up by a client id and secret alone, whether "
                "people sign in with a password, whether a forgotten one is reset by mail, and whether an "
                "invited person can sign in at all.",
                is_public=True,
            )
        },
        START_PATH: {"get": _redirect("startSignIn", "Go to the page of a provider", headers)},
        ANSWER_PATH: {"get": _redirect("finishSignIn", "Come back from the page of a provider", headers)},
    }


def _operation(
    id: str,
    summary: str,
    headers: Document,
    schema: Document | None = None,
    *,
    status: str = "200",
    about: str = "",
    word: str = "",
    is_public: bool = False,
) -> Document:
    success: Document = {"description": "Success", "headers": headers}
    if schema:
        success["content"] = {"application/json": {"schema": schema}}
    refusals = {
        "401": "Unauthorized",
        "404": "NotFound",
        "429": "TooManyRequests",
        "503": "ServiceUnavailable",
    }
    if id in _OPERATIONS_WITH_RULES:
        refusals = {"400": "BadRequest", "403": "Forbidden", **refusals}
    operation: Document = {
        "tags": ["Account"],
        "operationId": id,
        "summary": summary,
        "responses": {
            status: success,
            **{code: {"$ref": f"#/components/responses/{name}"} for code, name in refusals.items()},
        },
    }
    if about:
        operation["description"] = about
    if word:
        operation["parameters"] = [_path_word(word)]
    if is_public:
        operation["security"] = []
    return operation


def _redirect(id: str, summary: str, headers: Document) -> Document:
    location = {"Location": {"description": "The next page", "schema": _TEXT_SCHEMA}}
    operation = _operation(id, summary, headers, status="302", word="Name of the provider", is_public=True)
    operation["responses"]["302"] = {"description": "Go on there", "headers": {**headers, **location}}
    return operation


def _with_body(operation: Document, **properties: Document) -> Document:
    operation["requestBody"] = _body(**properties)
    if operation["operationId"] in {"openBrowserSession", "usePasswordLink"}:
        operation["responses"]["200"] = _further(operation["responses"]["201"]["headers"])
    operation["responses"]["409"] = {"$ref": "#/components/responses/Conflict"}
    return operation


def _further(headers: Document) -> Document:
    """Returns the answer to a right password where something is missing: a second factor, or a sign-in."""
    content = {"application/json": {"schema": _NEXT_STEP_SCHEMA}}
    return {
        "description": "No session yet: `next` says what is missing",
        "headers": headers,
        "content": content,
    }


def _body(**properties: Document) -> Document:
    return {"content": {"application/json": {"schema": _object(**properties)}}}


def _limited(limit: int) -> Document:
    return {**_TEXT_SCHEMA, "maxLength": limit}


def _path_word(about: str) -> Document:
    return {
        "name": "id",
        "in": "path",
        "required": True,
        "description": about,
        "schema": {"type": "string", "minLength": 1, "maxLength": 64},
    }


def _object(**properties: Document) -> Document:
    return {"type": "object", "properties": properties}


def _array_of(item: Document) -> Document:
    return {"type": "array", "items": item}


def _results(item: Document) -> Document:
    return _object(results=_array_of(item))


_SESSION_SCHEMA: Final = _object(
    id=_TEXT_SCHEMA,
    created_at=_TIME_SCHEMA,
    last_used_at=_TIME_SCHEMA,
    ends_at=_TIME_SCHEMA,
    address=_TEXT_SCHEMA,
    user_agent=_TEXT_SCHEMA,
    is_this_one={"type": "boolean"},
)
_OPENED_SCHEMA: Final = _object(page_key=_TEXT_SCHEMA, ends_at=_TIME_SCHEMA, recovery_codes=_LIST_SCHEMA)
_NEXT_STEP_SCHEMA: Final = _object(
    next=_TEXT_SCHEMA,
    setup={**_object(secret=_TEXT_SCHEMA, uri=_TEXT_SCHEMA), "nullable": True},
    passkey={**_CHALLENGE, "nullable": True},
)
_LINK_SHOWN: Final = _object(
    purpose=_TEXT_SCHEMA,
    email=_TEXT_SCHEMA,
    name=_TEXT_SCHEMA,
    organization_name=_TEXT_SCHEMA,
    role_name=_TEXT_SCHEMA,
    has_password=_FLAG_SCHEMA,
    expires_at=_TIME_SCHEMA,
)
_ACCOUNT_SCHEMA: Final = _object(
    id=_TEXT_SCHEMA,
    name=_TEXT_SCHEMA,
    is_person=_FLAG_SCHEMA,
    organizations=_array_of(
        _object(id=_TEXT_SCHEMA, name=_TEXT_SCHEMA, scopes=_LIST_SCHEMA, scopes_of_parts=_LIST_SCHEMA)
    ),
    session=_TEXT_SCHEMA,
    expires_at={**_TIME_SCHEMA, "nullable": True},
    person={
        **_object(
            email=_TEXT_SCHEMA,
            name=_TEXT_SCHEMA,
            password_changed_at=_TIME_SCHEMA,
            has_second_factor=_FLAG_SCHEMA,
            has_authenticator_app=_FLAG_SCHEMA,
            passkeys=_array_of(
                _object(
                    id=_TEXT_SCHEMA,
                    name=_TEXT_SCHEMA,
                    created_at=_TIME_SCHEMA,
                    last_used_at={**_TIME_SCHEMA, "nullable": True},
                )
            ),
            recovery_codes_left={"type": "integer"},
        ),
        "nullable": True,
    },
)
