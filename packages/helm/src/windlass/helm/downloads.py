"""Downloads files of chart repositories over HTTPS. Each address is checked by the client of outgoing
requests, also after a redirect, and a login is sent only to the host that it is for."""

from __future__ import annotations

import base64
from typing import Final
from urllib.parse import urljoin, urlsplit

from msgspec import Struct

from windlass.base.http_out import (
    AddressRefused,
    HttpResult,
    HttpTransport,
    NoAnswer,
    TlsFailure,
    UnknownName,
)
from windlass.engines.registries import RegistryLogin, is_loopback
from windlass.registries.refusals import Problem, RegistryFailure

MAX_REDIRECTS: Final = 5
TIMEOUT: Final = 60.0
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class Download(Struct, frozen=True, kw_only=True):
    """A file of a repository that is to be downloaded."""

    url: str
    home: str
    """The address of the repository, to whose host alone the login is sent."""
    authorization: str = ""
    """The header with the login; empty without one."""
    limit: int
    """Maximum number of bytes."""
    what: str
    """The name of the file in messages, such as `index.yaml`."""


def basic_authorization(login: RegistryLogin | None) -> str:
    if login is None:
        return ""
    return "Basic " + base64.b64encode(f"{login.username}:{login.password}".encode()).decode()


async def fetch_file(transport: HttpTransport, wanted: Download) -> bytes:
    """Returns the content of a file. Raises RegistryFailure."""
    url = wanted.url
    for _ in range(MAX_REDIRECTS):
        is_home = _origin(url) == _origin(wanted.home)
        headers = {"Authorization": wanted.authorization} if wanted.authorization and is_home else {}
        answer = await _send(transport, url, headers, wanted.limit)
        if answer.status not in _REDIRECTS:
            return _content(answer, url, wanted)
        url = _target_of(url, answer)
    raise RegistryFailure(
        Problem.NOT_A_REGISTRY, f"Check the address: {_host(url)} redirects more than {MAX_REDIRECTS} times"
    )


def _target_of(url: str, answer: HttpResult) -> str:
    target = urljoin(url, answer.headers.get("location", ""))
    if urlsplit(target).scheme != "https" and not (target.startswith("http://") and is_loopback(target)):
        raise RegistryFailure(
            Problem.NOT_A_REGISTRY, f"Check the address: {_host(url)} redirects to an address without https"
        )
    return target


async def _send(transport: HttpTransport, url: str, headers: dict[str, str], limit: int) -> HttpResult:
    try:
        return await transport.send("GET", url, b"", headers, seconds=TIMEOUT, limit=limit)
    except AddressRefused as error:
        raise RegistryFailure(Problem.ADDRESS, str(error)) from error
    except UnknownName as error:
        raise RegistryFailure(Problem.NAME, f"Check the address. {error}") from error
    except TlsFailure as error:
        raise RegistryFailure(
            Problem.TLS,
            "Give the repository a certificate of an authority that Windlass knows, or ask the operator to "
            "add its "
            f"authority with the setting outbound_ca_file. {error}",
        ) from error
    except NoAnswer as error:
        raise RegistryFailure(Problem.UNREACHABLE, f"Check the address, and try again. {error}") from error


def _content(answer: HttpResult, url: str, wanted: Download) -> bytes:
    host, what, limit = _host(url), wanted.what, wanted.limit
    match answer.status:
        case 200 if answer.cut:
            raise RegistryFailure(
                Problem.NOT_A_REGISTRY,
                f"Use another repository: {what} of {host} has more than {limit >> 20} MiB",
            )
        case 200:
            return answer.body
        case 401 | 403 if not wanted.authorization:
            raise RegistryFailure(
                Problem.LOGIN, f"Give the repository a login: {host} refuses requests without one"
            )
        case 401 | 403:
            raise RegistryFailure(Problem.LOGIN, f"Check user name and password: {host} refuses the login")
        case 404 | 410:
            raise RegistryFailure(Problem.UNKNOWN_IMAGE, f"Check the address: {host} has no {what} there")
        case 429:
            raise RegistryFailure(
                Problem.RATE_LIMIT, f"Try again later: {host} allows no more requests for now"
            )
        case status if status >= 500:
            raise RegistryFailure(
                Problem.UNREACHABLE, f"Try again later: {host} answers with the error {status}"
            )
    raise RegistryFailure(
        Problem.NOT_A_REGISTRY, f"Check the address: {host} answers {answer.status} for {what}"
    )


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()
