"""Answers to challenges of a certificate authority over HTTP (http-01, RFC 8555)."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

CHALLENGE_PREFIX: Final = b"/.well-known/acme-challenge/"


class ChallengeAnswer(Struct, frozen=True):
    """Has the interface of an error page, so that a client connection can send it without a service."""

    body: bytes
    status: int = 200

    def rendered(self, fields: bytes, *, head_only: bool, closes_connection: bool) -> bytes:
        head = (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n"
            b"Cache-Control: no-store\r\n%b\r\n"
        ) % (len(self.body), b"Connection: close\r\n" if closes_connection else b"")
        return head if head_only else head + self.body
