"""Lines of the log: one for each record, whatever a client sends."""

from __future__ import annotations

import json
import logging

import pytest

from tests.tables import rows
from windlass.base.log import JsonLines, TextLines

HARMFUL = ["\n", "\r", "\x1b[31m", "\x7f", "\x85", "\x9b31m", "\u2028", "\u2029", "\u202e", "\u2066"]


def record(message: str, **extras: str) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": message, "name": "windlass.access", "created": 0.0} | extras)


@pytest.mark.parametrize("form", [JsonLines(), TextLines()], ids=["json", "text"])
@pytest.mark.parametrize("text", HARMFUL, ids=ascii)
def test_text_of_a_client_cannot_add_log_lines_or_terminal_escapes(form, text):
    line = form.format(record(f"GET /{text}15:00:00 error", path=f"/{text}"))
    assert line.isprintable()
    assert len(line.splitlines()) == 1


@rows("text", HARMFUL, ids=ascii)
def test_an_error_that_quotes_a_client_looks_like_no_record_and_sends_no_command(text):
    failure = ValueError(f"/{text}15:00:00 error")
    told = logging.makeLogRecord({"msg": "failed", "exc_info": (ValueError, failure, None), "created": 0.0})
    first, *trace = TextLines().format(told).split("\n")
    assert first.endswith("failed")
    assert all(line.startswith("  ") and line.isprintable() for line in trace)


@rows("text", HARMFUL, ids=ascii)
def test_a_json_log_line_preserves_the_original_text(text):
    assert json.loads(JsonLines().format(record(f"GET /{text}")))["message"] == f"GET /{text}"


def test_letters_of_other_alphabets_are_logged_unescaped():
    """The control of the tests above."""
    assert TextLines().format(record("GET /Übersicht/日本")).endswith("GET /Übersicht/日本")
