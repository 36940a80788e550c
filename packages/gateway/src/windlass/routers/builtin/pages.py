"""Error answers of the router: an HTML page for browsers, JSON or plain text for programs."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from math import ceil
from typing import Final

from msgspec import Struct

from windlass.routers.router import Absence, ServedElsewhere

_ACCEPT_PATTERN: Final = re.compile(rb"\r\naccept:([^\r]*)", re.IGNORECASE)
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --ink: #1d2430; --dim: #667085; --line: #e4e7ec; --back: #f8f9fb;
  --card: #fff }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e6e9ef; --dim: #98a2b3; --line: #2b3342; --back: #11151c; --card: #181e28 }}
}}
* {{ box-sizing: border-box }}
body {{ margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1.5rem; color: var(--ink);
  background: var(--back); font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif }}
main {{ max-width: 34rem; padding: 2.25rem 2.5rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 14px; box-shadow: 0 1px 3px rgb(0 0 0 / 6%) }}
p {{ margin: 0; overflow-wrap: anywhere }}
.status {{ font-size: .85rem; letter-spacing: .06em; color: var(--dim) }}
h1 {{ margin: .35rem 0 .6rem; font-size: 1.45rem; line-height: 1.3; overflow-wrap: anywhere }}
footer {{ margin-top: 1.75rem; padding-top: 1rem; border-top: 1px solid var(--line); font-size: .85rem;
  color: var(--dim) }}
</style>
</head>
<body>
<main>
<p class="status">{status} {reason}</p>
<h1>{title}</h1>
<p>{message}</p>
<footer>Windlass</footer>
</main>
</body>
</html>
"""


_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


class ErrorPage(Struct, frozen=True):
    status: int
    title: str
    message: str
    retry: int = 0
    """Value of Retry-After in seconds; 0 for no such header."""
    allow: str = ""
    """Value of Allow for a method that is not allowed; empty for no such header."""
    location: str = ""
    """Value of Location for a redirect; empty for no such header."""
    reloads: bool = False
    """Whether browsers load the page again after the seconds of `retry`."""

    def rendered(self, fields: bytes, *, head_only: bool, closes_connection: bool) -> bytes:
        """Renders the answer. The Accept header among the request's `fields` chooses the format."""
        kind, text = self._text(fields)
        return self.rendered_as(kind, text, head_only=head_only, closes_connection=closes_connection)

    def rendered_as(
        self, kind: str, text: str, *, head_only: bool, closes_connection: bool, policy: str = _POLICY
    ) -> bytes:
        """Renders the answer with a text of a media type."""
        body = text.encode()
        lines = [
            f"HTTP/1.1 {self.status} {_status_phrase(self.status)}",
            f"Content-Type: {kind}",
            f"Content-Length: {len(body)}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
        ]
        if policy:
            lines.append(f"Content-Security-Policy: {policy}")
        if self.retry:
            lines.append(f"Retry-After: {self.retry}")
            if self.reloads and kind.startswith("text/html"):
                lines.append(f"Refresh: {self.retry}")
        if self.allow:
            lines.append(f"Allow: {self.allow}")
        if self.location:
            lines.append(f"Location: {self.location}")
        if closes_connection:
            lines.append("Connection: close")
        head = "\r\n".join([*lines, "", ""]).encode()
        return head if head_only else head + body

    def _text(self, fields: bytes) -> tuple[str, str]:
        match = _ACCEPT_PATTERN.search(fields)
        liked = match[1].lower() if match else b""
        if b"text/html" in liked:
            return "text/html; charset=utf-8", self._html()
        if b"json" in liked:
            return "application/json", self._json()
        return "text/plain; charset=utf-8", f"{self.title}\n{self.message}\n"

    def _html(self) -> str:
        return _PAGE.format(
            status=self.status,
            reason=html.escape(_status_phrase(self.status)),
            title=html.escape(self.title),
            message=html.escape(self.message),
        )

    def _json(self) -> str:
        text = f"{self.title}. {self.message}"
        answer = {
            "status": self.status,
            "error": _status_phrase(self.status),
            "message": text,
            "detail": text,
        }
        return json.dumps(answer, ensure_ascii=False)


def _status_phrase(status: int) -> str:
    return HTTPStatus(status).phrase


def bad_request(status: int, message: str) -> ErrorPage:
    return ErrorPage(status, "This request cannot be taken", message)


def unknown(host: str) -> ErrorPage:
    return ErrorPage(
        404,
        f"No service is called {host}" if host else "No service was named",
        "Look up the service's address in Windlass: it may be misspelled, not deployed yet, or deleted."
        if host
        else "Send the header Host: without it, no service can be found.",
    )


def no_path(host: str, path: str) -> ErrorPage:
    return ErrorPage(404, f"There is nothing at {path}", f"No service of {host} has this path.")


def no_file(title: str) -> ErrorPage:
    return ErrorPage(404, "There is nothing here", f"{title} has no page at this address.")


def only_read(title: str) -> ErrorPage:
    message = f"{title} is a static site: ask with GET or HEAD."
    return ErrorPage(405, "This can only be read", message, allow="GET, HEAD")


def unreadable(title: str) -> ErrorPage:
    """Returns the page for a static site whose files are not readable at the moment."""
    return ErrorPage(
        503, f"{title} cannot be read now", "Its files are put in place again. Try again soon.", 5
    )


def absent(title: str, absence: Absence) -> ErrorPage:
    """Returns the page for a service without a running instance."""
    heading, message, retry = _ABSENCE_TEXTS[absence]
    return ErrorPage(503, f"{title} {heading}", message, retry=retry)


_ABSENCE_TEXTS: Final[Mapping[Absence, tuple[str, str, int]]] = {
    Absence.UNREADY: (
        "is not running",
        "None of its instances is ready now. Try again in a moment; its log in Windlass shows why.",
        5,
    ),
    Absence.NONE_WANTED: (
        "has no instances",
        "It is scaled to 0. It is reached here again once it is scaled to 1 or more in Windlass.",
        0,
    ),
    Absence.FILES_MISSING: (
        "is not ready",
        "Its files are missing: Windlass puts them in place, or builds them again. Try again in a moment; "
        "its status in Windlass reports if that fails.",
        5,
    ),
    Absence.FIRST: (
        "is being deployed for the first time",
        "It is reached here as soon as its first instance is healthy. Try again in a moment.",
        5,
    ),
    Absence.DEPLOYING: (
        "is being deployed",
        "It is reached here as soon as an instance is healthy. Try again in a moment.",
        5,
    ),
    Absence.FAILED: ("is not running", "Its last deployment failed: see its log in Windlass.", 0),
    Absence.SLEEPING: (
        "is waking up",
        "It was stopped because it had no requests for a while. Try again in a moment.",
        3,
    ),
    Absence.STOPPED: ("is stopped", "It is reached here again once it is deployed in Windlass.", 0),
    Absence.UNDEPLOYED: ("is not deployed", "It is reached here again once it is deployed in Windlass.", 0),
}
"""The rest of the heading (after the service's title), the message, and the value of Retry-After; 0 if a
retry would not help."""


def waking(title: str, *, reloads: bool) -> ErrorPage:
    """Returns the page for a sleeping service that takes long to start. `reloads`: the request may be
    repeated."""
    return ErrorPage(
        503,
        f"{title} is waking up",
        "It was stopped because it had no requests for a while, and is being started now. "
        + ("This page reloads by itself." if reloads else "Try again in a moment."),
        retry=3,
        reloads=reloads,
    )


def asleep(title: str, *, reloads: bool) -> ErrorPage:
    """Returns the page for a sleeping service that cannot be woken at the moment."""
    return ErrorPage(
        503,
        f"{title} is asleep",
        "It was stopped because it had no requests for a while, and cannot be started at the moment. "
        + ("This page reloads by itself." if reloads else "Try again in a moment."),
        retry=10,
        reloads=reloads,
    )


def only_https() -> ErrorPage:
    """Returns the page for a request that was sent to the HTTPS port without TLS."""
    return ErrorPage(400, "This port is for HTTPS", "Use an address that begins with https://.")


def misdirected(host: str) -> ErrorPage:
    """Returns the page for a request whose host is not covered by the certificate of its connection. A
    client then connects again (RFC 9110, section 15.5.20)."""
    return ErrorPage(
        421,
        f"{host or 'This host'} is not served on this connection",
        "The certificate of this connection is not valid for this name: connect again, with this name.",
    )


def moved(title: str, host: str, location: str) -> ErrorPage:
    return ErrorPage(308, f"{title} is at {host}", f"Its address is {location}.", location=location)


def https_only(title: str, location: str) -> ErrorPage:
    return ErrorPage(308, f"{title} is reached by HTTPS", f"Its address is {location}.", location=location)


def served_elsewhere(title: str, host: ServedElsewhere) -> ErrorPage:
    """Returns the page for a service whose instances are reachable through another machine's gateway only.
    Status 421 (Misdirected Request) means that a retry at this gateway does not help."""
    gateway = host.url or "the gateway there"
    return ErrorPage(
        421, f"{title} is not served here", f"It runs on the machine {host.machine}: use {gateway}."
    )


def starting() -> ErrorPage:
    return ErrorPage(
        503,
        "Windlass is starting",
        "It does not know all services yet. Try again in a moment.",
        retry=1,
    )


def not_answering(title: str) -> ErrorPage:
    return ErrorPage(
        503,
        f"{title} does not answer",
        "It runs, but accepts no connections. Try again in a moment.",
        retry=2,
    )


def bad_answer(title: str, reason: str) -> ErrorPage:
    return ErrorPage(502, f"{title} gave no valid answer", reason)


def too_late(title: str, seconds: float) -> ErrorPage:
    return ErrorPage(
        504, f"{title} takes too long", f"It did not begin to answer within {seconds:g} seconds."
    )


def takes_nothing(title: str, seconds: float) -> ErrorPage:
    return ErrorPage(
        504, f"{title} takes too long", f"It has taken nothing of the request for {seconds:g} seconds."
    )


def too_many_requests(title: str, requests: int, seconds: float) -> ErrorPage:
    return ErrorPage(
        429,
        "Too many requests",
        f"{title} takes at most {requests:,} requests a minute from one address.",
        retry=ceil(seconds),
    )


def under_maintenance(title: str) -> ErrorPage:
    return ErrorPage(503, f"{title} is under maintenance", "It is reached here again later.", retry=60)


def too_many_connections() -> ErrorPage:
    return ErrorPage(
        503,
        "Too many connections",
        "The router has as many connections as it may have. Try again in a moment.",
        retry=2,
    )
