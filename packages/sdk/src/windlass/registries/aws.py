"""Logins for AWS registries: requests a temporary password with a signed request."""

from __future__ import annotations

import base64
import time
from typing import Final

import msgspec
from msgspec import Struct

from windlass.base.aws_signing import AccessKeys, sign
from windlass.base.foreign_json import BadJson, read_json
from windlass.base.http_out import (
    AddressRefused,
    HttpResult,
    HttpTransport,
    NoAnswer,
    TlsFailure,
    UnknownName,
)
from windlass.engines.registries import RegistryLogin
from windlass.registries.client import TIMEOUT
from windlass.registries.refusals import Problem, RegistryFailure

_TARGET_HEADER: Final = "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"
_CONTENT_TYPE: Final = "application/x-amz-json-1.1"


class EcrLogin(Struct, frozen=True):
    login: RegistryLogin
    url: str
    """Address of the account's registry."""


class AwsAuthorization(Struct):
    token: str = msgspec.field(name="authorizationToken")
    url: str = msgspec.field(name="proxyEndpoint", default="")


class AwsAuthorizations(Struct):
    data: list[AwsAuthorization] = msgspec.field(name="authorizationData")


class AwsError(Struct):
    type: str = msgspec.field(name="__type", default="")


async def ecr_login(transport: HttpTransport, keys: AccessKeys) -> EcrLogin:
    """Requests a login for the registry of the account to which the keys belong."""
    host, body = _registry_host(keys.region), b"{}"
    headers = {"Content-Type": _CONTENT_TYPE, "X-Amz-Target": _TARGET_HEADER}
    signed = sign(keys, "ecr", "POST", host, body, headers, time.gmtime())
    try:
        answer = await transport.send("POST", f"https://{host}/", body, signed, seconds=TIMEOUT)
    except AddressRefused as error:
        raise RegistryFailure(Problem.ADDRESS, str(error)) from error
    except UnknownName as error:
        raise RegistryFailure(Problem.NAME, f"config.region: check the region. {error}") from error
    except TlsFailure as error:
        raise RegistryFailure(Problem.TLS, str(error)) from error
    except NoAnswer as error:
        raise RegistryFailure(Problem.UNREACHABLE, f"Try again later: AWS gives no login. {error}") from error
    if answer.status != 200:
        raise _explain_refusal(answer)
    return _login_in(answer)


def _registry_host(region: str) -> str:
    return f"api.ecr.{region}.amazonaws.com" + (".cn" if region.startswith("cn-") else "")


def _login_in(answer: HttpResult) -> EcrLogin:
    try:
        entry = read_json(answer.body, AwsAuthorizations).data[0]
        username, _, password = base64.b64decode(entry.token, validate=True).decode().partition(":")
    except (ValueError, IndexError) as error:
        raise RegistryFailure(
            Problem.NOT_A_REGISTRY, "Check region and access keys: AWS answers with no login for the registry"
        ) from error
    return EcrLogin(RegistryLogin(username, password), entry.url.rstrip("/"))


def _explain_refusal(answer: HttpResult) -> RegistryFailure:
    try:
        word = read_json(answer.body, AwsError).type.rpartition("#")[2]
    except BadJson:
        word = ""
    if word == "AccessDeniedException":
        return RegistryFailure(
            Problem.RIGHT,
            "Give the access keys the right ecr:GetAuthorizationToken: AWS says that they lack it",
        )
    if answer.status == 429 or "Throttling" in word:
        return RegistryFailure(Problem.RATE_LIMIT, "Try again in a minute: AWS allows no more requests", 60)
    if answer.status >= 500:
        return RegistryFailure(
            Problem.UNREACHABLE, f"Try again later: AWS answers with the error {answer.status}"
        )
    return RegistryFailure(
        Problem.LOGIN,
        f"Check access_key_id and secret_access_key: AWS refuses them ({word or answer.status})",
    )
