"""A browser that watches itself: each request must be of the API, and nothing may fail unseen."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Playwright,
    expect,
    sync_playwright,
)

from tests.browser.servers import Repository, Server
from tests.needs import program
from windlass.api.openapi import encoded_document
from windlass.families import registry

CHROMIUM = Path(__file__).parent / "steady_chromium"
PATIENCE = 60_000
"""Milliseconds: a machine under load is slow, and no test asserts a time."""
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DOCUMENT = json.loads(encoded_document(registry()))
PATTERNS = {
    method.upper(): [
        re.compile(re.sub(r"\{\w+\}", "[^/]+", path) + r"\Z")
        for path, item in DOCUMENT["paths"].items()
        if method in item
    ]
    for method in ("get", "post", "put", "patch", "delete")
}
MIRROR = {
    "name": "mirror",
    "kind": "GENERIC_CR",
    "url": "https://registry.example.com",
    "config": {"username": "acme", "password": "s3cret-value"},
}
NEW = ("application", "container", "database", "job", "terraform")
PAGES = re.compile(r"/console(/.*)?|/openapi\.json|/\w+/[0-9a-f-]{36}/exec")
"""The console itself, the document, and websockets that run commands."""


@pytest.fixture(scope="package")
def playwright_driver() -> Iterator[Playwright]:
    """Ends with this folder: while it runs, its loop is in the way of asynchronous tests."""
    program("chromium")
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as driver:
        yield driver


@pytest.fixture(scope="package")
def chromium(playwright_driver: Playwright) -> Iterator[Browser]:
    browser = playwright_driver.chromium.launch(executable_path=CHROMIUM, args=list(OPTIONS))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("console"))
    yield running
    running.end()


@pytest.fixture(scope="module")
def places(server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The address of every page, with things on it."""
    repository = Repository(tmp_path_factory.mktemp("everybody") / "repository")
    environment = server.environment()
    good = server.application(environment, repository)
    server.call("POST", f"/application/{good}/environmentVariable", {"key": "GREETING", "value": "Ann"})
    server.call("POST", f"/application/{good}/secret", {"key": "KEY", "value": "s3cret-value"})
    deployment = server.deploy(good)
    repository.commit({"app.py": "raise SystemExit('no more rope')\n"}, "Breaks it")
    bad = server.application(environment, repository, "orders")
    failed = server.deploy(bad, "FAILED")
    token = server.call("POST", f"/organization/{server.org}/apiToken", {"name": "CI", "scopes": ["Deploy"]})
    project = server.call("GET", f"/organization/{server.org}/project")["results"][0]["id"]
    job, terraform = (server.example(environment, kind) for kind in ("job", "terraform"))
    app, org = f"/application/{good}", f"/organization/{server.org}"
    server.call("POST", f"{org}/containerRegistry", MIRROR)
    tabs = (
        "deployments", "logs", "requests", "domains", "variables", "metrics", "terminal", "settings",
        "activity",
    )  # fmt: skip
    return {
        "overview": "/",
        "new": "/new",
        "account": "/account",
        "project": f"/project/{project}",
        "environment": f"/environment/{environment}",
        "previews": f"/environment/{environment}/preview",
        "deployment stages": f"/environment/{environment}/deploymentStage",
        "deployments of an environment": f"/environment/{environment}/deployments",
        "a deployment of an environment": f"/environment/{environment}/deployments/{deployment}",
        "variables of an environment": f"/environment/{environment}/variables",
        "service": app,
        **{name: f"{app}/{name}" for name in tabs},
        "deployment": f"{app}/deployments/{deployment}",
        "a failed service": f"/application/{bad}",
        "a failed deployment": f"/application/{bad}/deployments/{failed}",
        "organization": org,
        "audit": f"{org}/audit",
        "members": f"{org}/member",
        "tokens": f"{org}/apiToken",
        "a token": f"{org}/apiToken/{token['id']}",
        "webhooks": f"{org}/webhook",
        "clusters": f"{org}/cluster",
        "a job": job,
        "runs of a job": f"{job}/runs",
        "settings of a job": f"{job}/settings",
        "a Terraform service": terraform,
        "plan of a Terraform service": f"{terraform}/plan",
        "settings of a Terraform service": f"{terraform}/settings",
        "registries": f"{org}/containerRegistry",
        **{f"a new {kind}": f"/new?kind={kind}&environment={environment}" for kind in NEW},
        "an action": "/do/createProject",
        "an action with choices": f"/do/createContainerRegistry?org_id={server.org}",
        "nothing": "/nowhere/at/all",
    }


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


class Watch:
    """The errors of a page, and its requests that no page of the console may make."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.troubles: list[str] = []
        self.expected: list[str] = []
        """Parts of messages that a test brings about."""

    def look_at(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        page.on("console", self._hear)
        page.on("request", lambda request: self._note_request(request.method, request.url))

    def _hear(self, said: ConsoleMessage) -> None:
        if said.type == "error":
            self.troubles.append(f"console: {said.text}")

    def _note_request(self, method: str, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme in {"blob", "data"}:
            return
        if parts.netloc != f"127.0.0.1:{self._server.port}":
            self.troubles.append(f"another host: {url}")
        elif not PAGES.fullmatch(parts.path) and not any(
            pattern.match(parts.path) for pattern in PATTERNS[method]
        ):
            self.troubles.append(f"not in the OpenAPI document: {method} {parts.path}")

    def remaining(self) -> list[str]:
        return [problem for problem in self.troubles if not any(part in problem for part in self.expected)]


@pytest.fixture
def watch(server: Server) -> Iterator[Watch]:
    watching = Watch(server)
    yield watching
    assert watching.remaining() == []


@pytest.fixture
def new_page(chromium: Browser, server: Server, watch: Watch) -> Iterator[Callable[..., Page]]:
    """Makes pages of browsers that are signed in, each in a browser of its own."""
    contexts: list[BrowserContext] = []

    def make(path: str = "/", *, signed_in: bool = True, **options: Any) -> Page:
        context = chromium.new_context(**({"viewport": {"width": 1280, "height": 860}} | options))
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        watch.look_at(page)
        if signed_in:
            page.goto(server.link())
            page.wait_for_selector("main h1")
            if path != "/":
                page.goto(f"{server.url}/console{path}")
                page.wait_for_selector("main h1")
        else:
            page.goto(f"{server.url}/console{path}")
        return page

    yield make
    for context in contexts:
        context.close()


@pytest.fixture
def page(new_page: Callable[..., Page]) -> Page:
    return new_page()
