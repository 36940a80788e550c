"""Converts the engine's build output to the build log, and derives the reason of a failure in terms of the
Dockerfile."""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from windlass.base.lazy import lazy_pattern
from windlass.builders.error_lines import error_line
from windlass.builders.remedies import build_remedy
from windlass.docker.builds import trace
from windlass.docker.client.answers import NOT_AN_ENGINE, EngineRefused

MAX_LINE_BYTES: Final = 16 * 1024
MAX_KEPT_LINES: Final = 200
"""Number of the last output lines that are searched for the reason of a failure."""
MAX_KEPT_LINE_LENGTH: Final = 1000
MAX_KEPT_BYTES: Final = 64 * 1024
"""Maximum size of the output that is kept to find the reason of a failure, once no further line is logged."""
MAX_LOGGED_LINES: Final = 20_000
"""Maximum number of lines in the log of a build. Each costs the server some 50 microseconds."""
MAX_FOLLOWED_STEPS: Final = 50
"""Maximum number of steps with output whose last lines are kept. A build runs fewer steps at once."""
MAX_NAMED_STEPS: Final = 10_000
"""Maximum number of steps in the log. A Dockerfile has 1000 instructions at most."""
MAX_REASON_LENGTH: Final = 4000
"""Maximum length of a step or an error of the engine that is examined, in characters. Both contain the
command of the step."""
MAX_RECORDED_LAYERS: Final = 500
"""Maximum number of recorded layers of a build; more than a build has steps."""
MAX_SHOWN_STEP_LENGTH: Final = 200
"""Maximum length of a step in an error message, in characters."""
MASK: Final = "••••"
_HIDDEN_STEPS: Final = ("[internal]", "copy /context")
# The colour codes with which the classic builder marks stderr.
_COLOUR_PATTERN = lazy_pattern(rb"\x1b\[(?:91|0)m")
_ITS_OWN: Final = ("Removing intermediate container", " ---> ", "Step ")
_STEP_PATTERN = lazy_pattern(r"Step \d+/\d+ : ")
_LAYER_PATTERN = lazy_pattern(r" ---> ([0-9a-f]{12,64})\Z")
_MOUNTS_PATTERN = lazy_pattern(r"(?<!\S)--mount=\S++ +")
_EXIT_CODE_PATTERN = lazy_pattern(r"(?:non-zero code|exit code): (\d+)")

MAX_PART_LENGTH: Final = 2048
"""Maximum length of the output that is taken at once, in characters. It may have a line for each of them."""

Say = Callable[[str], None]


def parts_of(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yields the message of the classic builder in parts, between which others can run."""
    text = message.get("stream")
    if not isinstance(text, str) or len(text) <= MAX_PART_LENGTH:
        yield message
        return
    for at in range(0, len(text), MAX_PART_LENGTH):
        yield {"stream": text[at : at + MAX_PART_LENGTH]}


class LineSplitter:
    """Splits output into lines."""

    def __init__(self, write_line: Say, is_full: Callable[[], bool] = lambda: False) -> None:
        """`is_full`: whether no further line is logged. Then only the end of the output is kept."""
        self._log_line, self._is_full = write_line, is_full
        self._rest = b""

    def feed(self, text: bytes) -> None:
        data, at = self._rest + text, 0
        while not self._is_full() and (end := data.find(b"\n", at)) >= 0:
            self._report_line(data[at:end])
            at = end + 1
        self._rest = data[at:]
        if self._is_full():
            self._rest = self._rest[-MAX_KEPT_BYTES:]
            return
        while len(self._rest) >= MAX_LINE_BYTES:
            self._report_line(self._rest[:MAX_LINE_BYTES])
            self._rest = self._rest[MAX_LINE_BYTES:]

    def close(self) -> None:
        rest, self._rest = self._rest.removesuffix(b"\n"), b""
        for line in rest.split(b"\n")[-MAX_KEPT_LINES:] if rest else ():
            self._report_line(line)

    def _report_line(self, line: bytes) -> None:
        # Only the last state of a progress bar, which overwrites itself.
        shown = _COLOUR_PATTERN.sub(b"", line).rstrip(b"\r").rpartition(b"\r")[2]
        for cut in range(0, len(shown), MAX_LINE_BYTES) or (0,):
            self._log_line(shown[cut : cut + MAX_LINE_BYTES].decode(errors="replace"))


class BuildProgress:
    def __init__(self, write_line: Say, scope: str = "") -> None:
        """`scope`: the secret value of the service (`guard.Around.scope`), which is masked in all lines."""
        self._scope, self._shown = scope, write_line
        self._last: deque[str] = deque(maxlen=MAX_KEPT_LINES)
        """The last output lines of the current or the failed step."""
        self._said = 0
        self._outputs: dict[str, deque[str]] = {}
        """The last output lines of steps, the latest step last."""
        self._classic = LineSplitter(self._classic_line, self._is_full)
        self._lines: dict[str, LineSplitter] = {}
        self._told: set[str] = set()
        self._step = ""
        self._layer_is_ours = False
        self.error = ""
        self.named: deque[str] = deque(maxlen=MAX_RECORDED_LAYERS)
        """Layer ids in the output of the classic builder, in order. They are not trusted, because a build
        step can print such lines."""

    def take(self, message: Mapping[str, Any]) -> None:
        """Raises EngineRefused for a message that no Docker engine sends: an organization may control it."""
        try:
            self._handle_message(message)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise EngineRefused(500, NOT_AN_ENGINE) from error

    def _handle_message(self, message: Mapping[str, Any]) -> None:
        if "stream" in message:
            self._write(str(message["stream"]))
        elif message.get("id") == "moby.buildkit.trace":
            self._handle_trace(base64.b64decode(message["aux"]))
        elif "error" in message:
            detail = message.get("errorDetail") or {}
            self.error = _shorten_middle(str(detail.get("message") or message["error"]))
        elif "status" in message and "progressDetail" not in message:
            self._log_line(str(message["status"]))

    def close(self) -> None:
        self._classic.close()
        for lines in self._lines.values():
            lines.close()

    def _log_line(self, line: str) -> None:
        self._said += 1
        if self._said <= MAX_LOGGED_LINES:
            self._shown(self._mask_scope(line))
        elif self._said == MAX_LOGGED_LINES + 1:
            self._shown("(the build writes more than can be kept; the rest is left out)")

    def _is_full(self) -> bool:
        return self._said > MAX_LOGGED_LINES

    def _mask_scope(self, text: str) -> str:
        return text.replace(self._scope, MASK) if self._scope else text

    @property
    def failure(self) -> str:
        """Returns an error message with a remedy and the reason of the failure, in terms of the
        Dockerfile."""
        return self._mask_scope(self._failure_reason())

    def _failure_reason(self) -> str:
        code = _EXIT_CODE_PATTERN.search(self.error)
        why = f"it exited with code {code[1]}" if code else self.error
        if code and (line := error_line(self._last)):
            why = f"{line} (exit code {code[1]})"
        step = _MOUNTS_PATTERN.sub("", self._step)
        step = step if len(step) <= MAX_SHOWN_STEP_LENGTH else f"{step[:MAX_SHOWN_STEP_LENGTH]}…"
        reason = f"{step}: {why}" if step else why
        number = int(code[1]) if code else 0
        if remedy := build_remedy(number, [*self._last, self.error], is_image=True):
            return f"{remedy} The step that failed: {reason}"
        return f"Look at the build log, and fix the step that failed: {reason}"

    def _write(self, text: str) -> None:
        if text.startswith(_ITS_OWN):  # a message of the engine, not of a step
            self._classic.close()
        self._classic.feed(text.encode())

    def _classic_line(self, line: str) -> None:
        if _STEP_PATTERN.match(line):
            self._step, self._layer_is_ours = (
                _shorten_middle(line.partition(" : ")[2]),
                " : FROM " not in line,
            )
            self._last.clear()
        elif line == " ---> Using cache":
            self._layer_is_ours = False
        elif (match := _LAYER_PATTERN.match(line)) and self._layer_is_ours:
            self.named.append(match[1])
        if line.strip():
            self._last.append(line[:MAX_KEPT_LINE_LENGTH])
            self._log_line(line)

    def _handle_trace(self, message: bytes) -> None:
        steps, outputs = trace.read(message)
        for step in steps:
            self._report_step(step)
        for output in outputs:
            self._lines_of(output.digest).feed(output.text)

    def _report_step(self, step: trace.Vertex) -> None:
        if step.error:
            self._lines_of(step.digest).close()
            if "context canceled" not in step.error or not self._step:
                self._step = _shorten_middle(step.name)
                self._last = self._outputs.get(step.digest, self._last)
        if not step.started or step.digest in self._told or step.name.startswith(_HIDDEN_STEPS):
            return
        if len(self._told) >= MAX_NAMED_STEPS:
            return
        self._told.add(step.digest)
        self._log_line(f"{step.name} (from the cache)" if step.cached else step.name)

    def _lines_of(self, digest: str) -> LineSplitter:
        if digest not in self._lines:
            while len(self._lines) >= MAX_FOLLOWED_STEPS:
                earliest = next(iter(self._lines))
                self._lines.pop(earliest).close()
                del self._outputs[earliest]
            last = self._outputs[digest] = deque[str](maxlen=MAX_KEPT_LINES)

            def take(line: str) -> None:
                last.append(line[:MAX_KEPT_LINE_LENGTH])
                self._log_line(line)

            self._lines[digest] = LineSplitter(take, self._is_full)
        return self._lines[digest]


def _shorten_middle(text: str) -> str:
    """Returns the beginning and the end of a long text. Its middle is what a step chose."""
    half = MAX_REASON_LENGTH // 2
    return text if len(text) <= MAX_REASON_LENGTH else f"{text[:half]}…{text[-half:]}"
