"""Logins by token, servers for them at other hosts, pages, rate limits, and AWS: against stubs."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.tables import rows
from windlass.base.aws_signing import AccessKeys, sign
from windlass.base.http_out import HttpResult
from windlass.engines.image_names import newer_than, newest_first
from windlass.engines.registries import BuildRegistry, RegistryLogin, may_give_tokens
from windlass.registries.aws import ecr_login
from windlass.registries.challenge import next_page, read_challenge, wait_of
from windlass.registries.client import RegistryClient, RequestPauses
from windlass.registries.refusals import Problem, RegistryFailure

LOGIN = RegistryLogin("reader", "reads-only")
BASIC = "Basic " + base64.b64encode(b"reader:reads-only").decode()
DIGEST = f"sha256:{'a' * 64}"
Answering = Callable[[str, str, Mapping[str, str]], tuple[int, Mapping[str, str], object]]


class Servers:
    """Stands for the servers of the world: answers requests, and remembers what each host was told."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering
        self.asked: list[tuple[str, str]] = []
        self.told: dict[str, set[str]] = {}
        """The Authorization headers that each host got."""

    async def send(
        self, method: str, url: str, body: bytes = b"", headers: Mapping[str, str] = {}, **_: object
    ) -> HttpResult:
        self.asked.append((method, url))
        if "Authorization" in headers:
            self.told.setdefault(urlsplit(url).netloc, set()).add(headers["Authorization"])
        status, answered, document = self._answering(method, url, headers)
        sent = document if isinstance(document, bytes) else json.dumps(document).encode()
        return HttpResult(status, answered, sent, False, 1)


def registry(servers: Servers, url: str, kind: str = "GENERIC_CR", login: RegistryLogin | None = LOGIN):
    return RegistryClient(servers, kind, url, login, RequestPauses())


def token_registry(realm: str) -> Answering:
    """A registry that takes tokens of the server at `realm`, each for one scope."""

    def answer(method: str, url: str, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str], object]:
        parts = urlsplit(url)
        if url.startswith(realm):
            scope = parse_qs(parts.query).get("scope", [""])[0]
            ok = headers.get("Authorization") in (BASIC, None)
            return (200, {}, {"token": f"for-{scope}"}) if ok else (401, {}, {})
        name = parts.path.removeprefix("/v2/").removesuffix("/tags/list")
        scope = f"repository:{name}:pull" if name else ""
        if headers.get("Authorization") != f"Bearer for-{scope}":
            return 401, {"www-authenticate": f'Bearer realm="{realm}",service="reg",scope="{scope}"'}, {}
        if name == "acme/secret":
            return 403, {}, {}
        return 200, {"docker-distribution-api-version": "registry/2.0"}, {"tags": ["1", "2"]}

    return answer


async def test_a_token_is_fetched_with_the_login_for_each_scope():
    servers = Servers(token_registry("https://reg.example.com/token"))
    client = registry(servers, "https://reg.example.com")
    await client.check()
    assert (await client.tags("acme/shop", 10)).names == ["1", "2"]
    with pytest.raises(RegistryFailure, match="may not read acme/secret") as refused:
        await client.tags("acme/secret", 10)
    assert refused.value.problem is Problem.RIGHT


async def test_a_wrong_login_is_refused_by_the_server_for_tokens():
    servers = Servers(token_registry("https://reg.example.com/token"))
    with pytest.raises(RegistryFailure, match="refuses the login") as refused:
        await registry(servers, "https://reg.example.com", login=RegistryLogin("reader", "no")).check()
    assert refused.value.problem is Problem.LOGIN


async def test_a_registry_login_is_not_sent_to_a_token_server_of_another_domain():
    """Negative control: a neighbour of the registry gets it."""
    for realm, gets in (("https://auth.evil.test/token", False), ("https://auth.example.com/token", True)):
        servers = Servers(token_registry(realm))
        if gets:
            await registry(servers, "https://reg.example.com").check()
        else:
            with pytest.raises(RegistryFailure, match="does not send it there"):
                await registry(servers, "https://reg.example.com").check()
        assert (urlsplit(realm).netloc in servers.told) == gets


@rows(
    ("kind", "url", "realm", "may"),
    [
        ("DOCKER_HUB", "https://docker.io", "https://auth.docker.io/token", True),
        ("DOCKER_HUB", "https://docker.io", "https://auth.docker.io.evil.test/token", False),
        ("DOCKER_HUB", "https://docker.io", "http://auth.docker.io/token", False),
        ("GITLAB_CR", "https://registry.gitlab.com", "https://gitlab.com/jwt/auth", True),
        ("GITLAB_CR", "https://registry.example.com", "https://gitlab.example.com/jwt/auth", True),
        ("GENERIC_CR", "https://registry.example.com", "https://gitlab.com/jwt/auth", False),
        ("SCALEWAY_CR", "https://rg.fr-par.scw.cloud", "https://api.scaleway.com/x", True),
        ("GENERIC_CR", "https://acme.co.uk", "https://evil.co.uk/token", False),
        ("GENERIC_CR", "https://10.0.0.5:5000", "https://11.0.0.5/token", False),
        ("GENERIC_CR", "https://10.0.0.5:5000", "https://10.0.0.5:5000/token", True),
        ("GENERIC_CR", "https://reg.example.com", "https://auth.example.com:8443/token", False),
        ("GENERIC_CR", "https://reg.example.com", "https://u@auth.example.com/token", False),
        ("GENERIC_CR", "http://127.0.0.1:5000", "http://127.0.0.1:5001/token", False),
    ],
)
def test_a_token_server_must_belong_to_its_registry(kind, url, realm, may):
    assert may_give_tokens(kind, url, realm) == may


async def test_pages_are_read_to_the_end_and_never_at_another_host():
    def answer(method: str, url: str, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str], object]:
        last = parse_qs(urlsplit(url).query).get("last", ["0"])[0]
        following = int(last) + 1
        link = {"link": f'</v2/a/tags/list?last={following}&n=1>; rel="next"'} if following < 3 else {}
        return 200, link, {"tags": [str(following)]}

    servers = Servers(answer)
    read = await registry(servers, "https://reg.example.com").tags("a", 10)
    assert (read.names, read.is_complete) == (["1", "2", "3"], True)
    cut = await registry(servers, "https://reg.example.com").tags("a", 2)
    assert (cut.names, cut.is_complete) == (["1", "2"], False)
    base = "https://reg.example.com"
    assert next_page('<https://evil.test/v2/a/tags/list?last=1>; rel="next"', base) == ""
    assert next_page('</other?last=1>; rel="next"', base) == ""
    assert next_page(f'<{base}/v2/a/tags/list?last=1>; rel="next"', base) == "/v2/a/tags/list?last=1"


async def test_a_rate_limit_of_a_registry_is_reported_and_respected():
    def answer(method: str, url: str, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str], object]:
        return 429, {"retry-after": "90"}, {}

    servers, pauses = Servers(answer), RequestPauses()
    for _ in range(3):
        client = RegistryClient(servers, "DOCKER_HUB", "https://docker.io", None, pauses)
        with pytest.raises(RegistryFailure, match="allows no more requests for now") as refused:
            await client.tags("nginx", 10)
        assert (refused.value.problem, 80 < refused.value.retry_after <= 90) == (Problem.RATE_LIMIT, True)
    assert len(servers.asked) == 1, "it is asked again only after the time that it names"
    assert [wait_of({"retry-after": text}, 1000.0) for text in ("", "soon", "7", "99999999")] == [
        60,
        60,
        7,
        21600,
    ]


async def test_a_rate_limit_of_one_login_does_not_pause_another_login_of_the_same_user_name():
    def answer(method: str, url: str, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str], object]:
        return 429, {"retry-after": "90"}, {}

    servers, pauses = Servers(answer), RequestPauses()
    for password in ("guessed", "guessed", "right"):
        login = RegistryLogin("acme", password)
        client = RegistryClient(servers, "DOCKER_HUB", "https://docker.io", login, pauses)
        with pytest.raises(RegistryFailure, match="allows no more requests for now"):
            await client.tags("nginx", 10)
    assert len(servers.asked) == 2


async def test_the_remaining_docker_hub_pulls_are_read_from_its_headers():
    def answer(method: str, url: str, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str], object]:
        if urlsplit(url).netloc == "auth.docker.io":
            return 200, {}, {"token": "t"}
        if headers.get("Authorization") != "Bearer t":
            return 401, {"www-authenticate": 'Bearer realm="https://auth.docker.io/token",service="r"'}, {}
        told = {"ratelimit-limit": "200;w=21600", "ratelimit-remaining": "176;w=21600"}
        return 200, told | {"docker-content-digest": DIGEST}, {}

    servers = Servers(answer)
    client = registry(servers, "https://docker.io", "DOCKER_HUB")
    await client.check()
    assert client.allowance is not None
    assert (client.allowance.limit, client.allowance.remaining, client.allowance.window_seconds) == (
        200,
        176,
        21600,
    )
    assert ("HEAD", "https://registry-1.docker.io/v2/ratelimitpreview/test/manifests/latest") in servers.asked
    assert await client.digest("nginx", "1") == DIGEST
    assert servers.asked[-1][1] == "https://registry-1.docker.io/v2/library/nginx/manifests/1"


@pytest.mark.parametrize(
    ("status", "headers", "document", "problem"),
    [
        (404, {}, b"<html>", Problem.NOT_A_REGISTRY),
        (200, {}, b"<html>", Problem.NOT_A_REGISTRY),
        (301, {"location": "https://x.test"}, b"", Problem.NOT_A_REGISTRY),
        (401, {"www-authenticate": "Negotiate"}, b"", Problem.NOT_A_REGISTRY),
        (503, {}, b"", Problem.UNREACHABLE),
    ],
)
async def test_a_server_that_is_not_a_registry_is_reported(status, headers, document, problem):
    servers = Servers(lambda method, url, sent: (status, headers, document))
    with pytest.raises(RegistryFailure) as refused:
        await registry(servers, "https://reg.example.com").check()
    assert refused.value.problem is problem
    assert not servers.told


def test_a_www_authenticate_challenge_is_parsed():
    challenge = read_challenge(
        'Bearer realm="https://a.test/t?x=1", service="a \\"b\\"", error=insufficient_scope'
    )
    assert challenge is not None
    assert (challenge.service, challenge.error) == ('a "b"', "insufficient_scope")
    assert challenge.token_url("repository:a/b:pull") == (
        "https://a.test/t?x=1&service=a%20%22b%22&scope=repository%3Aa%2Fb%3Apull"
    )
    assert read_challenge("Bearer service=x") is None
    assert read_challenge("Digest realm=x") is None


@pytest.mark.timeout(30)
def test_long_headers_are_read_in_one_pass():
    """Nothing else runs meanwhile: an expression that begins anew at each letter would take minutes."""
    assert read_challenge("Bearer " + "a" * 200_000) is None
    assert next_page("<" * 200_000, "https://registry.example.com") == ""


# AWS

KEYS = AccessKeys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "us-east-1")


@pytest.mark.parametrize(
    ("method", "signature"),
    [
        ("GET", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("POST", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
    ],
)
def test_requests_are_signed_as_in_the_examples_of_aws(method, signature):
    moment = time.strptime("20150830T123600Z", "%Y%m%dT%H%M%SZ")
    headers = sign(KEYS, "service", method, "example.amazonaws.com", b"", {}, moment)
    assert headers["Authorization"].endswith(f"Signature={signature}")


async def test_an_ecr_login_is_requested_without_sending_the_secret_key():
    token = base64.b64encode(b"AWS:password-of-some-hours").decode()
    endpoint = "https://1234.dkr.ecr.us-east-1.amazonaws.com"
    document = {"authorizationData": [{"authorizationToken": token, "proxyEndpoint": endpoint}]}
    servers = Servers(lambda method, url, headers: (200, {}, document))
    answer = await ecr_login(servers, KEYS)
    assert (answer.login, answer.url) == (RegistryLogin("AWS", "password-of-some-hours"), endpoint)
    assert servers.asked == [("POST", "https://api.ecr.us-east-1.amazonaws.com/")]
    assert KEYS.secret not in str(servers.told)
    assert "SignedHeaders=content-type;host;x-amz-date;x-amz-target" in str(servers.told)


@pytest.mark.parametrize(
    ("status", "document", "problem"),
    [
        (400, {"__type": "UnrecognizedClientException"}, Problem.LOGIN),
        (403, {"__type": "com.amazon.coral.service#AccessDeniedException"}, Problem.RIGHT),
        (400, {"__type": "ThrottlingException"}, Problem.RATE_LIMIT),
        (500, {}, Problem.UNREACHABLE),
        (200, {"authorizationData": []}, Problem.NOT_A_REGISTRY),
        (200, {"authorizationData": [{"authorizationToken": "***"}]}, Problem.NOT_A_REGISTRY),
    ],
)
async def test_a_refused_ecr_login_is_reported_with_its_problem(status, document, problem):
    servers = Servers(lambda method, url, headers: (status, {}, document))
    with pytest.raises(RegistryFailure) as refused:
        await ecr_login(servers, KEYS)
    assert refused.value.problem is problem


# Tags


@pytest.mark.parametrize(
    ("present", "tags", "newer"),
    [
        ("1.4.2", ["1.4.10", "1.4.3", "1.4.2", "1.4", "2", "latest", "1.5.0-alpine"], ["1.4.10", "1.4.3"]),
        ("v1.4.2-alpine", ["1.5.0", "v1.5.0", "v1.5.0-alpine", "v1.4.1-alpine"], ["v1.5.0-alpine"]),
        ("16", ["17", "16.1", "15"], ["17"]),
        ("latest", ["1", "2"], []),
    ],
)
def test_newer_versions_are_tags_of_the_same_form(present, tags, newer):
    assert newer_than(present, tags) == newer


def test_image_tags_are_sorted_by_version_and_other_tags_last():
    tags = ["latest", "1.9", "1.10", "2.0.0-rc1", "2.0.0", "edge", "1.10"]
    assert newest_first(tags) == ["2.0.0", "2.0.0-rc1", "1.10", "1.9", "edge", "latest"]


@rows(
    ("prefix", "name", "is_built"),
    [
        ("reg.example.com/windlass", "reg.example.com/windlass/x", True),
        ("reg.example.com/windlass", "REG.example.com:443/windlass/x", True),
        ("reg.example.com:443/windlass", "reg.example.com/windlass/x", True),
        ("reg.example.com/windlass", "reg.example.com:5000/windlass/x", False),
        ("reg.example.com/windlass", "reg.example.com/windlass-tools/x", False),
        ("docker.io/acme", "acme/x", True),
        ("acme", "index.docker.io/acme/x", True),
        ("docker.io/acme", "other/x", False),
    ],
)
def test_images_of_the_build_registry_are_recognized_under_each_of_their_names(prefix, name, is_built):
    assert BuildRegistry(prefix).holds(name) is is_built
