"""Pages of a service in place of those of the router."""

from __future__ import annotations

import html
import re
from typing import Final

from windlass.routers.builtin.pages import ErrorPage
from windlass.routers.builtin.site_preferences import preferences_of

_PLACEHOLDER: Final = re.compile(r"\{(status|title|message)\}")
_MAX_REPLACED: Final = 100
"""Number of placeholders of a page that are replaced. The page of a service, which each of its errors may
show, could otherwise become a thousand times as large as its text."""


class OwnPage:
    """An error page with the HTML of the service. Programs that do not ask for HTML get the router's answer.
    It has the interface of an error page."""

    def __init__(self, page: ErrorPage, text: str) -> None:
        """`text`: the HTML. In it, `{status}`, `{title}` and `{message}` are replaced."""
        self._page, self._text = page, text
        self.status = page.status

    def rendered(self, fields: bytes, *, head_only: bool, closes_connection: bool) -> bytes:
        page = self._page
        if not preferences_of(fields).html:
            return page.rendered(fields, head_only=head_only, closes_connection=closes_connection)
        text = _PLACEHOLDER.sub(
            lambda mark: html.escape(str(getattr(page, mark[1]))), self._text, count=_MAX_REPLACED
        )
        return page.rendered_as(
            "text/html; charset=utf-8",
            text,
            head_only=head_only,
            closes_connection=closes_connection,
            policy="",
        )
