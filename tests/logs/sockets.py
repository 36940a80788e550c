"""Addresses of logs for WebSockets."""

from __future__ import annotations

from urllib.parse import urlencode


def logs(service: str, **others: str) -> str:
    return f"/service/logs?{urlencode({'service': service} | others)}"
