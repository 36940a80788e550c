"""`windlass gateway config` prints what a proxy in front needs; nginx takes it as it is."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.certificates import authority, write_pair
from tests.free_ports import free_port
from tests.operate.story.proxies import needs_nginx, nginx
from windlass.operate.proxy_commands import config
from windlass.operate.proxy_files import PROXIES

NAMES = ["--name", "windlass.example.com", "--services", "apps.example.com"]


def printed(*words: str, **settings: str) -> Result:
    environment = {f"WINDLASS_{name.upper()}": value for name, value in settings.items()}
    return CliRunner().invoke(config, words, env=environment)


@asynccontextmanager
async def echo(name: str) -> AsyncIterator[int]:
    """A server that answers with its name and the head of the request; yields its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                _, *lines = head.strip().split("\r\n")
                headers = {field.lower(): value for field, value in (line.split(": ", 1) for line in lines)}
                body = json.dumps({"server": name, **headers}).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def get(port: int, host: str, *, trust: Path | None, more: str = "") -> tuple[int, dict[str, str], Any]:
    context = ssl.create_default_context(cafile=str(trust)) if trust else None
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname=host if trust else None
    )
    writer.write(f"GET /x?y=1 HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    status, *lines = head.split("\r\n")
    return int(status.split()[1]), dict(line.split(": ", 1) for line in lines), body


@needs_nginx
async def test_nginx_takes_the_printed_file_and_passes_names_addresses_and_upgrades(tmp_path: Path) -> None:
    by = authority(tmp_path / "ca")
    http, https = free_port(), free_port()
    async with echo("api") as api, echo("gateway") as gateway:
        chain, key = write_pair(by, "proxy", "windlass.example.com", "*.apps.example.com")
        result = printed(
            "--for", "nginx", *NAMES, "--certificate", str(chain), "--certificate-key", str(key),
            port=str(api), gateway_port=str(gateway),
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        lines = result.stdout.replace("listen 80;", f"listen 127.0.0.1:{http};")
        lines = lines.replace("listen 443 ssl;", f"listen 127.0.0.1:{https} ssl;")
        _, _, sites = lines.partition("}\nupstream windlass_api")
        async with nginx(tmp_path / "nginx", "upstream windlass_api" + sites):
            for host, server in (("windlass.example.com", "api"), ("shop.apps.example.com", "gateway")):
                forged = "X-Forwarded-For: 6.6.6.6\r\nUpgrade: websocket\r\n"
                status, _, body = await get(https, host, trust=by.file, more=forged)
                seen = json.loads(body)
                assert (status, seen["server"], seen["host"]) == (200, server, host)
                assert (seen["x-forwarded-for"], seen["x-forwarded-proto"]) == ("127.0.0.1", "https")
                assert (seen["upgrade"], seen["connection"]) == ("websocket", "upgrade")
                status, headers, _ = await get(http, host, trust=None)
                assert (status, headers["Location"]) == (308, f"https://{host}/x?y=1")


@pytest.mark.parametrize("proxy", sorted(PROXIES))
def test_each_file_names_both_names_both_addresses_and_the_settings(proxy: str) -> None:
    ports = {"port": "8088", "gateway_port": "8089", "https_port": "8090"}
    text = printed("--for", proxy, *NAMES, gateway_host="0.0.0.0", **ports).stdout
    written = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    services = "127.0.0.1:8090" if proxy == "haproxy" else "*.apps.example.com"
    for wanted in ("windlass.example.com", services, "127.0.0.1:8088", "127.0.0.1:8089"):
        assert wanted in written
    for setting in ('public_url = "https://windlass.example.com"', 'public_domain = "apps.example.com"'):
        assert f"#     {setting}\n" in text


def test_only_haproxy_itself_opens_the_socket_at_which_it_believes_addresses() -> None:
    lines = printed("--for", "haproxy", *NAMES, https_port="8090").stdout.splitlines()
    believing = [line.split() for line in lines if "accept-proxy" in line.split()]
    assert [line[:2] for line in believing] == [["bind", "/var/lib/haproxy/windlass.sock"]]
    assert " ".join(believing[0][2:6]) == "user haproxy mode 600"
    assert not [line for line in lines if "abns@" in line]


def test_haproxy_needs_the_https_port_of_the_gateway() -> None:
    result = printed("--for", "haproxy", *NAMES)
    assert "set https_port" in str(result.exception or "") + result.output


def test_the_names_are_those_of_the_settings_unless_others_are_passed() -> None:
    settings = {"public_url": "https://deploy.example.org:8443", "public_domain": "apps.example.org"}
    text = printed("--for", "caddy", **settings).stdout
    assert "\ndeploy.example.org {" in text
    assert "\n*.apps.example.org {" in text


@pytest.mark.parametrize(
    ("words", "settings", "first"),
    [
        ([], {}, "pass --name, such as --name windlass.example.com: a name is needed"),
        (["--name", "x.example.com"], {}, "pass --services, such as --services apps.example.com"),
        (["--name", "a b.example.com"], {}, "pass --name"),
        (["--name", "x; }"], {}, "pass --name"),
        ([*NAMES, "--certificate", "/etc/x y.pem"], {}, "pass --certificate as an absolute path"),
        (NAMES, {"gateway_port": "0"}, "set port and gateway_port"),
    ],
)
def test_options_that_a_proxy_cannot_use_are_refused_with_a_hint(
    words: list[str], settings: dict[str, str], first: str
) -> None:
    result = printed("--for", "nginx", *words, **settings)
    assert result.exit_code != 0
    assert first in str(result.exception or "") + result.output
