"""A client of TLS 1.3 that asks for new keys again and again is closed."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from tests.gateway.routers.issuing import issuing_authority
from tests.gateway.routers.secure_town import https_port, make_secure_town
from tests.gateway.routers.town import SHOP, request
from windlass.routers.builtin import tls_layer

UPDATES = 300
_KEY_UPDATE = b"\x18\0\0\x01\x01\x16"
"""The message that asks for new keys, and the type of its record."""
_APPLICATION_DATA = b"\x17"


class Keys:
    """The keys of the records that a client sends (RFC 8446), for TLS_AES_256_GCM_SHA384."""

    def __init__(self, secret: bytes) -> None:
        self._use(secret)

    def _use(self, secret: bytes) -> None:
        self._secret, self._number = secret, 0
        self._cipher, self._iv = AESGCM(self._expand(b"key", 32)), self._expand(b"iv", 12)

    def _expand(self, label: bytes, length: int) -> bytes:
        label = b"tls13 " + label
        info = length.to_bytes(2) + bytes((len(label),)) + label + b"\0"
        return HKDFExpand(hashes.SHA384(), length, info).derive(self._secret)

    def record(self, content: bytes) -> bytes:
        head = b"\x17\x03\x03" + (len(content) + 16).to_bytes(2)
        nonce = bytes(a ^ b for a, b in zip(self._iv, self._number.to_bytes(12), strict=True))
        self._number += 1
        return head + self._cipher.encrypt(nonce, content, head)

    def update(self) -> bytes:
        """Returns a record that asks for new keys, and takes new ones for the next record."""
        record = self.record(_KEY_UPDATE)
        self._use(self._expand(b"traffic upd", 48))
        return record


async def shake_hands(reader: asyncio.StreamReader, out: asyncio.StreamWriter, log: Path) -> Keys:
    context = issuing_authority().client()
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.keylog_filename = str(log)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=SHOP)
    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            out.write(outgoing.read())
            incoming.write(await reader.read(16_384))
    out.write(outgoing.read())
    assert tls.cipher() == ("TLS_AES_256_GCM_SHA384", "TLSv1.3", 256)
    secrets = dict(line.split(" ")[::2] for line in log.read_text().splitlines() if line[0] != "#")
    return Keys(bytes.fromhex(secrets["CLIENT_TRAFFIC_SECRET_0"]))


async def answered_after(updates: int, log: Path) -> bool:
    """Returns whether a request after many updates is answered."""
    async with make_secure_town() as town:
        await town.shop(await town.instance())
        reader, out = await asyncio.open_connection("127.0.0.1", https_port(town))
        keys = await shake_hands(reader, out, log)
        received = bytearray()
        with contextlib.suppress(ConnectionError):
            out.write(b"".join(keys.update() for _ in range(updates)))
            out.write(keys.record(request() + _APPLICATION_DATA))
            while data := await asyncio.wait_for(reader.read(65_536), 2):
                received += data
                if town.router.traffic()["shop"].requests:
                    break
        out.close()
        return bool(town.router.traffic()["shop"].requests)


async def test_a_client_may_ask_for_new_keys(tmp_path: Path) -> None:
    assert await answered_after(3, tmp_path / "keys")


async def test_a_client_that_asks_for_new_keys_again_and_again_is_closed(tmp_path: Path) -> None:
    assert not await answered_after(UPDATES, tmp_path / "keys")


async def test_without_the_limit_it_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the test above would show nothing."""
    monkeypatch.setattr(tls_layer, "_MAX_REPLY_BYTES", 1 << 20)
    assert await answered_after(UPDATES, tmp_path / "keys")
