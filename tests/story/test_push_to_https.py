"""From an empty folder to a name with HTTPS: `git push` deploys, a second push replaces the first one under
load, and a pull request has an address of its own until it is closed.

Git, the builds, the processes, the gateway and the authority (Pebble) are real. Name servers are a stand-in,
and so is the API of the git server, unless Gitea is there.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from msgspec import Struct

from tests.domains.pebble import Pebble
from tests.domains.scene import KEY
from tests.fakes.name_server import NameServer, name_server
from tests.free_ports import free_port
from tests.gateway.routers.town import Caller, request
from tests.needs import needs
from tests.pushes.pushing import GIT, Folder
from tests.pushes.served_git import SERVERS, PullServer
from tests.whole import Windlass, place, until
from tests.world import ADMIN
from windlass.base.dns import client as dns_client

pytestmark = [needs("pebble"), pytest.mark.slow, pytest.mark.timeout(400)]

DOMAIN = "apps.example.com"
SERVER = """
import http.server, os

class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = open("text").read().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

http.server.ThreadingHTTPServer(("", int(os.environ["PORT"])), Page).serve_forever()
"""


class Visited(Struct, frozen=True):
    status: int
    text: str
    names: tuple[str, ...]
    """The names of the certificate."""


class Visitor:
    """A browser that trusts the authority of the test, and whose name server says that all is here."""

    def __init__(self, root: str, port: int) -> None:
        self._trust, self._port = ssl.create_default_context(cadata=root), port

    @contextlib.asynccontextmanager
    async def connected(self, host: str) -> AsyncIterator[tuple[Caller, tuple[str, ...]]]:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._port, ssl=self._trust, server_hostname=host
        )
        caller = Caller(reader, writer)
        try:
            found = dict(writer.get_extra_info("peercert"))["subjectAltName"]
            yield caller, tuple(name for _, name in found)
        finally:
            await caller.close()

    async def open(self, url: str) -> Visited:
        parts = urlsplit(url)
        assert (parts.scheme, parts.port) == ("https", self._port), url
        host = parts.hostname or ""
        async with self.connected(host) as (caller, names):
            said = await caller.ask(request(host=parts.netloc))
        return Visited(said.status, said.body.decode(), names)

    async def reload(self, url: str, seen: list[str], is_over: Callable[[], bool]) -> None:
        """Opens a page again and again: half of the time with a connection that is kept."""
        host = urlsplit(url).netloc
        while not is_over():
            async with self.connected(host.partition(":")[0]) as (caller, _):
                for _ in range(20):
                    said = await caller.ask(request(host=host))
                    assert said.status == 200, said
                    seen.append(said.body.decode())
                    await asyncio.sleep(0.005)
            seen.append((await self.open(url)).text)


class Story(Struct):
    windlass: Windlass
    folder: Path
    server: PullServer
    visitor: Visitor

    async def link(self, app: str) -> str:
        links = (await self.windlass.call("GET", f"/application/{app}/link"))["results"]
        return str(links[0]["url"]) if links else ""

    async def push(self, folder: Folder) -> str:
        """`git push windlass main`, with the password that `windlass git-credential` gives."""
        ended = await asyncio.to_thread(self._push, folder.path)
        assert ended.returncode == 0, ended
        return ended.stderr

    def _push(self, folder: Path) -> subprocess.CompletedProcess[str]:
        environment = GIT | {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / ".none")}
        environment |= {"WINDLASS_URL": self.windlass.url, "WINDLASS_TOKEN": ADMIN}
        words = ("git", "push", "windlass", "main")
        return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(params=SERVERS)
async def story(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Story]:
    https = free_port()
    async with name_server() as dns, request.param(tmp_path) as server:
        _serve(dns)
        monkeypatch.setattr(dns_client, "_PORT", dns.port)
        pebble = Pebble(tmp_path, free_port(), https, dns.address)
        settings: dict[str, Any] = {
            "port": free_port(),
            "https_port": https,
            "public_domain": DOMAIN,
            "acme_directory": f"https://127.0.0.1:{pebble.port}/dir",
            "acme_ca_file": str(pebble.own.file),
            "dns_servers": (dns.address,),
            "dns_provider": "rfc2136",
            "dns_update_server": dns.address,
            "dns_credentials": f"{KEY}:{base64.b64encode(dns.key[1]).decode()}",
            "auto_deploy_seconds": 5,
            **server.settings,
        }
        async with (
            pebble.running(),
            place("process", **settings) as there,
            there.windlass() as windlass,
        ):
            server.join(windlass)
            visitor = Visitor(await pebble.root(), https)
            yield Story(windlass, there.beside, server, visitor)


def _serve(dns: NameServer) -> None:
    dns.set(f"*.{DOMAIN}", ("A", "127.0.0.1"))
    dns.key = KEY, b"secret of the key"
    dns.serve_zone(DOMAIN)


async def test_an_empty_folder_becomes_a_page_with_https_and_a_pull_request_another_one(
    story: Story, monkeypatch: pytest.MonkeyPatch
):
    windlass, visitor = story.windlass, story.visitor

    folder = Folder(story.folder / "web")
    folder.write(Procfile="web: python3 server.py\n", requirements__txt="", text="one", server__py=SERVER)
    folder.commit("A page")
    monkeypatch.chdir(folder.path)
    await windlass.say("init", "--yes", "--name", "web", "--environment", "shop/production")
    assert "web runs v1" in await story.push(folder)
    (app,) = (await windlass.call("GET", "/resource?family=application"))["results"]

    async def has_https() -> bool:
        return (await story.link(app["id"])).startswith("https://")

    await until(has_https)
    url = await story.link(app["id"])
    assert urlsplit(url).hostname == f"web-production.{DOMAIN}"
    assert await visitor.open(url) == Visited(200, "one", (f"*.{DOMAIN}",))

    folder.write(text="two").commit("second")
    seen: list[str] = []
    pushing = asyncio.ensure_future(story.push(folder))
    await asyncio.gather(*(visitor.reload(url, seen, pushing.done) for _ in range(4)))
    assert f"  {url}" in await pushing, "the push shows the address"
    assert set(seen) == {"one", "two"}
    assert (await visitor.open(url)).text == "two"

    await pull_request(story)


async def pull_request(story: Story) -> None:
    windlass, server, visitor = story.windlass, story.server, story.visitor
    environment = await make_site(story)
    await windlass.call("PUT", f"/environment/{environment}/deploymentRule/current", {"auto_preview": True})

    async def preview() -> Any:
        found = await windlass.call("GET", f"/environment/{environment}/preview")
        return found["results"][0] if found["results"] else {}

    number = ""
    for text in ("red", "blue"):
        commit = await server.push("colours", text)
        number = number or await server.open("colours", commit)

        async def is_served(commit: str = commit) -> bool:
            shown = await preview()
            return bool(shown.get("deployed_commit_id") == commit and shown["state"] == "RUNNING")

        await until(is_served)
        address = (await preview())["address"]
        assert urlsplit(address).hostname == f"site-live-pr-{number}.{DOMAIN}"
        assert await visitor.open(address) == Visited(200, text, (f"*.{DOMAIN}",))

        async def is_told(commit: str = commit, address: str = address, number: str = number) -> bool:
            comments = await server.comments(number)
            is_success = "success" in await server.statuses(commit)
            return is_success and all(word in comments[0] for word in (address, commit[:12]))

        await until(is_told)
    await server.close(number)

    async def is_gone() -> bool:
        return not await preview() and (await visitor.open(address)).status == 404

    await until(is_gone)
    assert len(await server.comments(number)) == 1


async def make_site(story: Story) -> str:
    """An environment with an application that is built from the git server."""
    windlass, server = story.windlass, story.server
    org = (await windlass.call("GET", "/organization"))["id"]
    project = await windlass.call("POST", f"/organization/{org}/project", {"name": "site"})
    made = await windlass.call("POST", f"/project/{project['id']}/environment", {"name": "live"})
    environment = str(made["id"])
    body = {"name": "g", "type": "GITHUB", "token": server.token, "git_api_url": server.api}
    token = (await windlass.call("POST", f"/organization/{org}/gitToken", body))["id"]
    repository = {"url": server.url, "branch": "main", "git_token_id": token}
    ports = [{"internal_port": 8000, "publicly_accessible": True}]
    site = {"name": "site", "git_repository": repository, "ports": ports}
    await windlass.call("POST", f"/environment/{environment}/application", site)
    return environment
