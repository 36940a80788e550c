"""No text of a person or a program becomes a script: 60 payloads in every place that pages show."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import DOCUMENT
from tests.browser.payloads import HIT, PAYLOADS
from tests.browser.servers import Refused, Repository, Server
from tests.marks import either

pytestmark = pytest.mark.slow

INSERT = """(text) => {
  try { document.body.insertAdjacentHTML('beforeend', text) } catch (error) { return String(error) }
}"""


class Town:
    """A server whose every text is a payload."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        made = server.call(
            "POST", f"/organization/{server.org}/project", {"name": PAYLOADS[0], "description": PAYLOADS[1]}
        )
        self.project = made["id"]
        environment = server.call("POST", f"/project/{self.project}/environment", {"name": PAYLOADS[2]})
        self.environment = environment["id"]
        repository = Repository(folder / "repository", author="<img src=x onerror=window.__hit=1>")
        lines = "".join(f"print({json.dumps(payload)}, flush=True)\n" for payload in PAYLOADS)
        program = (repository.folder / "app.py").read_text()
        branch = "<img/src=x/onerror=window.__hit=1>"
        repository.git("checkout", "-q", "-b", branch)
        repository.commit({"app.py": lines + program}, "\n".join(PAYLOADS[:3]))
        self.app = self._add(
            "application",
            {
                "name": PAYLOADS[3],
                "description": PAYLOADS[4],
                "git_repository": {"url": repository.url, "branch": branch},
            },
        )
        self.job = self._add(
            "job",
            {
                "name": PAYLOADS[5],
                "description": PAYLOADS[6],
                "source": {"docker": {"git_repository": {"url": repository.url, "branch": branch}}},
                "schedule": {"on_start": {"arguments": PAYLOADS[:5]}},
            },
        )
        registry = {"name": PAYLOADS[7], "description": PAYLOADS[8], "kind": "DOCKER_HUB", "config": {}}
        self.registry = server.call("POST", f"/organization/{server.org}/containerRegistry", registry)["id"]
        for index, payload in enumerate(PAYLOADS):
            self._try(
                "POST",
                f"/application/{self.app}/environmentVariable",
                {"key": f"KEY_{index}", "value": payload, "description": payload},
            )
            self._try("POST", f"/project/{self.project}/environment", {"name": payload})
            self._try(
                "POST",
                f"/environment/{self.environment}/application",
                {"name": payload, "description": payload, "git_repository": {"url": repository.url}},
            )
            self._try(
                "POST", f"/organization/{server.org}/apiToken", {"name": payload, "description": payload}
            )
        server.call(
            "POST",
            f"/organization/{server.org}/webhook",
            {
                "kind": "STANDARD",
                "target_url": "https://example.com/%3Cscript%3E",
                "description": PAYLOADS[0],
                "events": ["DEPLOYMENT_FAILED"],
            },
        )
        self.deployment = server.deploy(self.app)
        broken = server.call(
            "PATCH",
            f"/application/{self.app}",
            {"start_command": "python -c \"raise SystemExit('<img src=x onerror=window.__hit=1>')\""},
        )
        assert broken
        self.failed = server.deploy(self.app, "FAILED")

    def _add(self, kind: str, body: dict[str, object]) -> str:
        return str(self.server.call("POST", f"/environment/{self.environment}/{kind}", body)["id"])

    def _try(self, method: str, path: str, body: object) -> None:
        """Some names are taken, or have characters that no name may have."""
        try:
            self.server.call(method, path, body)
        except Refused as refusal:
            if refusal.status not in {400, 409}:
                raise


@pytest.fixture(scope="module")
def town(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Town:
    return Town(server, tmp_path_factory.mktemp("town"))


def places(town: Town) -> list[str]:
    app, org = f"/application/{town.app}", f"/organization/{town.server.org}"
    tabs = ("deployments", "logs", "variables", "metrics", "settings", "activity")
    return [
        "/",
        "/new",
        f"/project/{town.project}",
        f"/environment/{town.environment}",
        f"/environment/{town.environment}/variables",
        app,
        *(f"{app}/{name}" for name in tabs),
        f"{app}/deployments/{town.deployment}",
        f"{app}/deployments/{town.failed}",
        org,
        f"{org}/audit",
        f"{org}/apiToken",
        f"{org}/webhook",
        f"{org}/member",
        f"/job/{town.job}",
        f"/job/{town.job}/runs",
        f"/job/{town.job}/settings",
        f"{org}/containerRegistry",
        f"{org}/containerRegistry/{town.registry}",
        *(f"/new?kind={kind}" for kind in ("job", "terraform", "container", "database")),
        "/do/createJob",
    ]


def places_with_streams(town: Town) -> list[str]:
    """Places whose texts come as a stream too, which is not replaced where answers of the API are."""
    app = f"/application/{town.app}"
    deployments = f"{app}/deployments"
    return [
        "/",
        app,
        deployments,
        f"{deployments}/{town.deployment}",
        f"{deployments}/{town.failed}",
        f"{app}/logs",
    ]


ABSENT = "00000000-0000-4000-8000-000000000000"
"""Id of services that the engine of this test cannot run: their answers are the examples of the document."""
OF_OTHERS = [f"/container/{ABSENT}/tags", f"/terraform/{ABSENT}/plan", f"/job/{ABSENT}/runs"]


def example_at(path: str) -> Any:
    """Returns the example of the answer at a path of the API."""
    for pattern, item in DOCUMENT["paths"].items():
        if "get" in item and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), path):
            content = item["get"]["responses"]["200"]["content"]
            return content["application/json"]["example"]
    raise LookupError(path)


def was_hit(page: Page) -> bool:
    return bool(page.evaluate("Boolean(window.__hit)"))


def test_no_text_of_a_person_or_a_program_becomes_a_script(
    new_page: Callable[..., Page], watch, town: Town
) -> None:
    watch.expected.append("status of 409")  # Docker Hub lists no images
    page = new_page("/")
    shown = 0
    visited = either(places_with_streams, places)(town)
    for place in visited:
        page.goto(f"{town.server.url}/console{place}")
        page.wait_for_selector("main h1")
        page.wait_for_timeout(150)
        page.evaluate("document.querySelectorAll('main details').forEach((part) => { part.open = true })")
        assert not was_hit(page), place
        shown += HIT in page.locator("main").inner_text()
    assert shown > len(visited) // 3, "the payloads are not where they should be seen"
    page.keyboard.press("Control+k")
    page.keyboard.type("img")
    expect(page.locator("dialog.palette li").first).to_contain_text("img")
    assert not was_hit(page)


KEPT = re.compile(r"[0-9a-f-]{36}|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)|[A-Z0-9_]*|[a-z]+_[a-z0-9_]+")
"""Ids, times and words of the API: without them a page does not know what it shows."""


def with_payloads(data: Any, payloads: Iterator[str]) -> Any:
    """Replaces each text of an answer that a person or a program could have written."""
    if isinstance(data, dict):
        return {
            name: value if name in {"next", "previous"} else with_payloads(value, payloads)
            for name, value in data.items()
        }
    if isinstance(data, list):
        return [with_payloads(item, payloads) for item in data]
    if not isinstance(data, str) or KEPT.fullmatch(data):
        return data
    if data.startswith('{"'):  # JSON as a text: what an event of the audit changed
        return json.dumps(with_payloads(json.loads(data), payloads))
    return next(payloads)


@pytest.mark.timeout(600)
def test_no_text_of_any_api_answer_is_executed_as_a_script(
    new_page: Callable[..., Page], watch, town: Town
) -> None:
    """Pages do not rely on the server, which would refuse some of these texts."""
    watch.expected += ["status of 404", "not in the OpenAPI document: GET /console", "Failed to load"]
    payloads = cycle(PAYLOADS)
    used: Counter[str] = Counter()

    def counted() -> Iterator[str]:
        for payload in payloads:
            used[payload] += 1
            yield payload

    def answer(route: Route) -> None:
        path = urlsplit(route.request.url).path
        if re.match(rf"/(container|terraform|job)/{ABSENT}", path):
            return route.fulfill(json=with_payloads(example_at(path), counted()))
        if re.match(r"/(environment|project)/", path) and town.environment not in path:
            return route.fulfill(json=with_payloads(example_at(path), counted()))
        response = route.fetch()
        is_json = "json" in response.headers.get("content-type", "")
        if not is_json or not response.ok:
            return route.fulfill(response=response)
        return route.fulfill(response=response, json=with_payloads(response.json(), counted()))

    page = new_page("/")
    page.route(
        re.compile(
            r"/(organization|project|environment|application|container|terraform|job|account)\b(?!.*(stream|follow=))"
        ),
        answer,
    )
    for place in places(town):
        page.goto(f"{town.server.url}/console{place}")
        page.wait_for_selector("main h1")
        page.wait_for_timeout(150)
        page.evaluate("document.querySelectorAll('main details').forEach((part) => { part.open = true })")
        assert not was_hit(page), place
    assert min(used[payload] for payload in PAYLOADS) > 0
    for place in OF_OTHERS:
        page.goto(f"{town.server.url}/console{place}")
        expect(page.locator(".tabs [aria-current=page]")).to_be_visible()
        page.wait_for_timeout(150)
        expect(page.locator("main")).to_contain_text(HIT)
        assert not was_hit(page), place


def test_without_the_content_security_policy_a_script_payload_is_executed(
    new_page: Callable[..., Page], watch
) -> None:
    """The negative control: without the policy of the page, a payload hits."""
    watch.expected += ["Trusted", "require-trusted-types", "Content Security Policy", "Failed to load"]
    page = new_page("/", bypass_csp=True)
    page.evaluate("(text) => document.body.insertAdjacentHTML('beforeend', text)", PAYLOADS[1])
    page.wait_for_function("window.__hit")
    other = new_page("/")
    refusal = other.evaluate(INSERT, PAYLOADS[1])
    assert "TrustedHTML" in refusal
    assert not was_hit(other)


def test_an_address_that_is_a_script_is_no_link(new_page: Callable[..., Page]) -> None:
    page = new_page("/")
    version = page.evaluate("document.querySelector('script').src").rsplit("/js/", 1)[0]
    made = page.evaluate(
        "async (base) => { const { outside } = (await import(base + '/js/main.js')).$parts;"
        " const urls = ['javascript:alert(1)', 'data:text/html,x', 'https://example.com/'];"
        " return urls.map((url) => outside(url, 'x').tagName) }",
        version,
    )
    assert made == ["SPAN", "SPAN", "A"]
