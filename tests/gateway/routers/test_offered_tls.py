"""What the HTTPS port offers of TLS: Mozilla's profile *intermediate*, without its classic Diffie-Hellman
exchanges."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.gateway.routers.issuing import issue
from tests.gateway.routers.secure_town import https_port, make_secure_town
from tests.gateway.routers.town import SHOP
from tests.needs import needs

SUITES = {"AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305"}
EVERYTHING = "ALL:COMPLEMENTOFALL:@SECLEVEL=0"


def _client(ciphers: str = EVERYTHING) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers(ciphers)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


def _is_accepted(port: int, cipher: str) -> bool:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        try:
            with _client(f"{cipher}:@SECLEVEL=0").wrap_socket(connection, server_hostname=SHOP):
                return True
        except OSError:
            return False


def _accepted(port: int) -> set[str]:
    known = {cipher["name"] for cipher in _client().get_ciphers() if cipher["protocol"] != "TLSv1.3"}
    assert len(known) > len(SUITES), "this library could speak others"
    return {name for name in known if _is_accepted(port, name)}


@pytest.mark.parametrize("kind", ["ECDSA", "RSA"])
async def test_tls_1_2_has_only_ciphers_with_a_new_key_for_each_session(kind: str):
    async with make_secure_town() as town:
        if kind == "RSA":
            await town.router.put_certificate("shop", issue(SHOP, key=rsa.generate_private_key(65537, 2048)))
        accepted = await asyncio.to_thread(_accepted, https_port(town))
    assert accepted == {f"ECDHE-{kind}-{suite}" for suite in SUITES}


@needs("openssl")
async def test_a_client_cannot_renegotiate_and_gets_no_compression():
    async with make_secure_town() as town:
        target = ("-connect", f"127.0.0.1:{https_port(town)}", "-servername", SHOP)
        done = await asyncio.to_thread(
            subprocess.run,
            ("openssl", "s_client", *target, "-tls1_2", "-comp", "-legacy_renegotiation"),
            input=b"R\n",
            capture_output=True,
            timeout=30,
            check=False,
        )
    assert b"Secure Renegotiation IS supported" in done.stdout
    assert b"Compression: NONE" in done.stdout
    assert b"no renegotiation" in done.stderr
