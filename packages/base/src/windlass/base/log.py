"""Writes structured logs: a JSON object for each record, or a readable line on a terminal."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from typing import Any, Final

from windlass.base.trace import current_trace

_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_CONTROL_CHARACTERS_PATTERN: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
"""Line breaks, control characters, and characters that change the text direction. Untrusted text, such as a
request path, may contain them."""


def log(name: str) -> logging.Logger:
    return logging.getLogger(f"windlass.{name}")


def start_logging(level: str, log_format: str) -> None:
    """Configures logging. `log_format` is json, text, or auto: text on a terminal, json otherwise."""
    readable = log_format == "text" or (log_format == "auto" and sys.stderr.isatty())
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextLines() if readable else JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Windlass logs the start and stop of the HTTP server itself.
    logging.getLogger("uvicorn").setLevel(max(logging.WARNING, root.level))
    # Windlass logs that the database is unavailable; the pool would add a trace for each attempt.
    logging.getLogger("asyncpg").setLevel(max(logging.ERROR, root.level))


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": f"{_time_text(record)}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extras(record),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return _escape(json.dumps(line, default=str, ensure_ascii=False))


class TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        extras = "".join(f"  {key}={value}" for key, value in _extras(record).items())
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        line = _escape(f"{clock} {record.levelname.lower():<7} {record.getMessage()}{extras}")
        return line + _indent(self.formatException(record.exc_info)) if record.exc_info else line


def _indent(text: str) -> str:
    """Indents the lines of a stack trace, so that no quoted client text looks like a log record."""
    return "".join(f"\n  {_escape(line)}" for line in text.split("\n"))


def _escape(text: str) -> str:
    """Escapes control characters as JSON does."""
    return _CONTROL_CHARACTERS_PATTERN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _time_text(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    trace = current_trace()
    traced = {"trace_id": trace.id} if trace else {}
    return traced | {key: value for key, value in vars(record).items() if key not in _STANDARD_FIELDS}
