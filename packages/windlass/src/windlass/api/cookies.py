"""The cookies that the server sets in browsers."""

from __future__ import annotations

from typing import Final

from windlass.api.answers import Header
from windlass.api.requests import HOST_PREFIX, SESSION_COOKIE, Request
from windlass.base.clock import DAY, SECOND
from windlass.control.people.browser_sessions import MAX_SESSION_LIFETIME, NewBrowserSession

_SIGN_IN_COOKIE: Final = "windlass_sign_in"
_KNOWN_BROWSER: Final = "windlass_known"
_KNOWN_BROWSER_SECONDS: Final = 180 * DAY // SECOND


class Cookies:
    """Reads and writes the cookies, with their names and rules over http and https.

    Over https, all have the prefix `__Host-`: a service at a name of the same domain cannot set them, and so
    not bring a browser into the session of another person. Browsers take it with `Path=/` only.
    """

    def __init__(self, url: str) -> None:
        self._is_secure = url.startswith("https://")

    def session(self, opened: NewBrowserSession) -> Header:
        # The cookie expires with the longest possible session. The server ends unused sessions earlier.
        return self._cookie(
            SESSION_COOKIE,
            opened.cookie,
            f"Max-Age={MAX_SESSION_LIFETIME // SECOND}; SameSite=Strict",
        )

    def no_session(self) -> Header:
        return self._cookie(SESSION_COOKIE, "", "Max-Age=0; SameSite=Strict")

    def memory(self, text: str) -> Header:
        """Returns the cookie with the state of a sign-in at a provider. A Strict cookie would be missing
        when the provider redirects back."""
        return self._cookie(_SIGN_IN_COOKIE, text, "Max-Age=600; SameSite=Lax")

    def no_memory(self) -> Header:
        return self._cookie(_SIGN_IN_COOKIE, "", "Max-Age=0; SameSite=Lax")

    def memory_of(self, request: Request) -> str:
        return request.cookie(self._name_of(_SIGN_IN_COOKIE))

    def known(self, text: str) -> Header:
        """Returns the cookie of a browser in which people have signed in with a password."""
        return self._cookie(_KNOWN_BROWSER, text, f"Max-Age={_KNOWN_BROWSER_SECONDS}; SameSite=Strict")

    def known_of(self, request: Request) -> str:
        return request.cookie(self._name_of(_KNOWN_BROWSER))

    def _name_of(self, name: str) -> str:
        return f"{HOST_PREFIX}{name}" if self._is_secure else name

    def _cookie(self, name: str, value: str, rules: str) -> Header:
        secure = "; Secure" if self._is_secure else ""
        return b"set-cookie", f"{self._name_of(name)}={value}; Path=/; {rules}{secure}; HttpOnly".encode()
