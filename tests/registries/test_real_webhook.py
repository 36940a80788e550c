"""The notifications of a real registry: a push to it deploys the tag."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from queue import Queue

from tests.fakes.engine import FakeEngine
from tests.registries.docker_registry import docker_registry
from tests.registries.test_containers_of_registries import container, deployed
from tests.world import make_world

Delivery = tuple[bytes, dict[str, str]]
PATIENCE = 10
MAX_DELIVERIES = 30


@contextmanager
def mailbox() -> Iterator[tuple[str, Queue[Delivery]]]:
    """Keeps what is sent to an address."""
    received: Queue[Delivery] = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.put((body, {name.lower(): value for name, value in self.headers.items()}))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/", received
    finally:
        server.shutdown()
        thread.join(PATIENCE)
        server.server_close()


async def test_a_push_to_a_real_registry_deploys_its_tag(tmp_path: Path):
    loopback = ("127.0.0.0/8", "::1/128")
    with mailbox() as (address, received):
        async with make_world(engine=FakeEngine("image"), out=None, outbound_allow=loopback) as world:
            secret = "of-the-webhook"
            with docker_registry(
                tmp_path, webhook=address, webhook_secret=secret, tls=False, login=False
            ) as real:
                real.push("acme/shop", "1.0", b"one")
                body = {"name": "ours", "kind": "GENERIC_CR", "url": real.url, "config": {}}
                path = f"/organization/{world.org}/containerRegistry"
                id = await world.made(path, body)
                service = await container(world, registry_id=id, auto_deploy=True)
                await deployed(world, service)
                made = await world.post(f"{path}/{id}/renewWebhook")
                real.push("acme/shop", "1.1", b"two")
                for _ in range(MAX_DELIVERIES):
                    raw, headers = await asyncio.to_thread(received.get, timeout=PATIENCE)
                    assert headers["authorization"] == f"Bearer {secret}"
                    headers["authorization"] = f"Bearer {made['secret']}"
                    to = "/registry-webhook/" + made["url"].rpartition("/")[2]
                    await world.call("POST", to, raw=raw, headers=headers, token=None)
                    if b'"1.1"' in raw:
                        break
                await world.run(10)
                assert (await world.get(f"/container/{service}"))["tag"] == "1.1"
                account = (await world.get(f"{path}/{id}/imagePush"))["results"]
                newest = next(entry for entry in account if entry["tag"] == "1.1")
                assert (newest["sender"], newest["result"]) == ("DISTRIBUTION", "DEPLOYED")
