"""The OpenAPI description of the account's paths, which are not in the registry; see `api.account`."""

from __future__ import annotations

from typing import Any, Final

BROWSER_SESSION: Final = "/account/browserSession"
SESSION: Final = "/account/browserSession/{id}"
LINK: Final = "/account/signInLink"
PROVIDERS: Final = "/account/signInProvider"
PROVIDER: Final = "/account/signInProvider/{id}"
START: Final = f"{PROVIDER}/start"
ANSWER: Final = f"{PROVIDER}/answer"

Document = dict[str, Any]
_TEXT: Final = {"type": "string"}
_TIME: Final = {"type": "string", "format": "date-time"}
_LIST: Final = {"type": "array", "items": _TEXT}


def paths(headers: Document) -> dict[str, Document]:
    """Returns the path items. `headers` are the headers of every response."""
    return {
        "/account": {
            "get": _operation(
                "getAccount",
                "Read who is calling",
                headers,
                _object(
                    id=_TEXT,
                    name=_TEXT,
                    is_person={"type": "boolean"},
                    organizations=_array_of(
                        _object(id=_TEXT, name=_TEXT, scopes=_LIST, scopes_of_parts=_LIST)
                    ),
                    session=_TEXT,
                    expires_at={**_TIME, "nullable": True},
                ),
            )
        },
        BROWSER_SESSION: {
            "get": _operation(
                "listBrowserSessions", "List your sessions in browsers", headers, _results(_SESSION)
            ),
            "post": {
                **_operation(
                    "openBrowserSession",
                    "Sign a browser in",
                    headers,
                    _object(page_key=_TEXT, ends_at=_TIME),
                    status="201",
                    about="With the code of a link, or with an API token in Authorization. The answer sets "
                    "the cookie of the session; requests send it with the key in X-Windlass-Page-Key.",
                ),
                "requestBody": {
                    "content": {"application/json": {"schema": _object(code={**_TEXT, "maxLength": 255})}}
                },
                "security": [{}, {"Token": []}],
            },
        },
        SESSION: {
            "delete": _operation(
                "endBrowserSession",
                "End a session in a browser",
                headers,
                word="Id of the session, or `current`",
                status="204",
            )
        },
        LINK: {
            "post": _operation(
                "createSignInLink",
                "Create a link that signs a browser in once",
                headers,
                _object(url=_TEXT, expires_at=_TIME),
                status="201",
                about="Needs an API token. The link ends after ten minutes.",
            )
        },
        PROVIDERS: {
            "get": _operation(
                "listSignInProviders",
                "List the ways to sign in",
                headers,
                _results(_object(name=_TEXT, title=_TEXT)),
                is_public=True,
            )
        },
        START: {"get": _redirect("startSignIn", "Go to the page of a provider", headers)},
        ANSWER: {"get": _redirect("finishSignIn", "Come back from the page of a provider", headers)},
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
    if id in {"openBrowserSession", "createSignInLink"}:
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
    location = {"Location": {"description": "The next page", "schema": _TEXT}}
    operation = _operation(id, summary, headers, status="302", word="Name of the provider", is_public=True)
    operation["responses"]["302"] = {"description": "Go on there", "headers": {**headers, **location}}
    return operation


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


_SESSION: Final = _object(
    id=_TEXT,
    created_at=_TIME,
    last_used_at=_TIME,
    ends_at=_TIME,
    address=_TEXT,
    user_agent=_TEXT,
    is_this_one={"type": "boolean"},
)
