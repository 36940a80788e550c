"""Serves reports of build usage. They need no token: the address is a secret, and expires."""

from __future__ import annotations

from html import escape
from typing import Any, Final

from windlass.api.answers import Header, HttpAnswer
from windlass.api.callers import Callers
from windlass.api.pages import accepts_html
from windlass.api.requests import Request
from windlass.api.wrong_paths import not_allowed
from windlass.base.errors import Missing
from windlass.control.context.call import encode
from windlass.control.context.context import Context
from windlass.control.services.build_usage_reports import (
    DELETE_SUFFIX,
    REPORT_PATH,
    BuildUsageLink,
    delete_link,
    find_link,
    report_of,
)

_HTML: Final[Header] = (b"content-type", b"text/html; charset=utf-8")
_HEADERS: Final[tuple[Header, ...]] = (
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; "
        b"frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"x-robots-tag", b"noindex"),
)
_MIB: Final = 1 << 20
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ text-align: left; padding: .4rem .8rem .4rem 0; border-bottom: 1px solid #ccc; }}
td.number, th.number {{ text-align: right; font-variant-numeric: tabular-nums; }}
</style></head><body><h1>{title}</h1>{body}</body></html>
"""


class BuildUsageReportRequests:
    def __init__(self, ctx: Context, callers: Callers) -> None:
        self._ctx, self._callers = ctx, callers

    def has(self, path: str) -> bool:
        return path.startswith(REPORT_PATH)

    async def answer(self, request: Request) -> HttpAnswer:
        environment, _, rest = request.path.removeprefix(REPORT_PATH).partition("/")
        code, deletes = rest.removesuffix(DELETE_SUFFIX), rest.endswith(DELETE_SUFFIX)
        # The path is logged, and the code in it must not be.
        request.path = f"{REPORT_PATH}{environment}"
        request.operation = "deleteBuildUsageReport" if deletes else "readBuildUsageReport"
        link = await find_link(self._ctx, environment, code)
        if link is None:
            self._callers.count_failure(request)
            raise Missing("Ask for a new link: this one has expired or was deleted")
        self._callers.exempt(request)
        is_read = request.method in {"GET", "HEAD"}
        if deletes and request.method in {"DELETE", "POST"}:
            await delete_link(self._ctx, link, code)
            return self._deleted(request)
        if not is_read:
            raise not_allowed(request.method, "DELETE, GET, POST" if deletes else "GET")
        return _confirmation(link) if deletes else await self._report(request, link)

    async def _report(self, request: Request, link: BuildUsageLink) -> HttpAnswer:
        report = await report_of(self._ctx, link)
        if not accepts_html(request.headers.get(b"accept", b"")):
            return HttpAnswer(200, encode(report), _HEADERS)
        return _page(f"What the builds of {report['environment_name']} used", _table(report))

    def _deleted(self, request: Request) -> HttpAnswer:
        if not accepts_html(request.headers.get(b"accept", b"")):
            return HttpAnswer(204, b"", _HEADERS)
        return _page("The report is deleted", "<p>Its link no longer works.</p>")


def _confirmation(link: BuildUsageLink) -> HttpAnswer:
    return _page("Delete this report?", '<form method="post"><button>Delete it</button></form>')


def _page(title: str, body: str) -> HttpAnswer:
    page = _PAGE.format(title=escape(title), body=body)
    return HttpAnswer(200, page.encode(), _HEADERS, _HTML)


def _table(report: dict[str, Any]) -> str:
    titles = ("Service", "Build time", "Processor time", "Peak memory")
    head = "".join(
        f'<th class="number">{title}</th>' if place else f"<th>{title}</th>"
        for place, title in enumerate(titles)
    )
    rows = "".join(_row(service) for service in report["services"])
    return (
        f"<p>Deployment {escape(report['execution_id'])}, {escape(report['created_at'] or 'which is gone')}. "
        f"This link expires at {escape(report['link_ends_at'])}.</p>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _row(service: dict[str, Any]) -> str:
    seconds, cpu, memory = service["build_seconds"], service["cpu_seconds"], service["peak_memory_bytes"]
    cells = (
        "–" if seconds is None else f"{seconds:.1f} s",
        "unknown" if cpu is None else f"{cpu:.1f} s",
        "unknown" if memory is None else f"{memory / _MIB:.0f} MiB",
    )
    numbers = "".join(f'<td class="number">{cell}</td>' for cell in cells)
    return f"<tr><td>{escape(service['name'])}</td>{numbers}</tr>"
