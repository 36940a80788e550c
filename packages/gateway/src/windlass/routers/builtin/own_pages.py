"""Pages of a service in place of those of the router."""

from __future__ import annotations

import html
from typing import Final

from windlass.routers.builtin.pages import ErrorPage
from windlass.routers.builtin.site_preferences import preferences_of

_PLACEHOLDERS: Final = ("status", "title", "message")


class OwnPage:
    """An error page with the HTML of the service. Programs that do not ask for HTML get the router's answer.
    It has the interface of an error page."""

    def __init__(self, page: ErrorPage, text: str) -> None:
        """`text`: the HTML. In it, `{status}`, `{title}` and `{message}` are replaced."""
        self._page, self._text = page, text
        self.status = page.status

    def rendered(self, fields: bytes, *, head_only: bool, close: bool) -> bytes:
        page = self._page
        if not preferences_of(fields).html:
            return page.rendered(fields, head_only=head_only, close=close)
        text = self._text
        for mark in _PLACEHOLDERS:
            text = text.replace(f"{{{mark}}}", html.escape(str(getattr(page, mark))))
        return page.rendered_as("text/html; charset=utf-8", text, head_only=head_only, close=close, policy="")
