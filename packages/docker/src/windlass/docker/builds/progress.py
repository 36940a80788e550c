"""Converts the engine's build output to the build log, and derives the reason of a failure in terms of the
Dockerfile."""

from __future__ import annotations

import base64
import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from windlass.builders.error_lines import error_line
from windlass.builders.remedies import build_remedy
from windlass.docker.builds import trace

MAX_LINE_BYTES: Final = 16 * 1024
MAX_KEPT_LINES: Final = 200
"""Number of the last output lines that are searched for the reason of a failure."""
MAX_KEPT_LINE_LENGTH: Final = 1000
MAX_RECORDED_LAYERS: Final = 500
"""Maximum number of recorded layers of a build; more than a build has steps."""
MAX_SHOWN_STEP_LENGTH: Final = 200
"""Maximum length of a step in an error message, in characters."""
MASK: Final = "••••"
_HIDDEN_STEPS: Final = ("[internal]", "copy /context")
# The colour codes with which the classic builder marks stderr.
_COLOUR = re.compile(rb"\x1b\[(?:91|0)m")
_ITS_OWN: Final = ("Removing intermediate container", " ---> ", "Step ")
_STEP = re.compile(r"Step \d+/\d+ : ")
_LAYER = re.compile(r" ---> ([0-9a-f]{12,64})\Z")
_MOUNTS = re.compile(r"--mount=\S+ +")
_EXIT_CODE = re.compile(r"(?:non-zero code|exit code): (\d+)")

Say = Callable[[str], None]


class LineSplitter:
    """Splits output into lines."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._rest = b""

    def feed(self, text: bytes) -> None:
        *whole, self._rest = (self._rest + text).split(b"\n")
        for line in whole:
            self._line(line)
        while len(self._rest) >= MAX_LINE_BYTES:
            self._line(self._rest[:MAX_LINE_BYTES])
            self._rest = self._rest[MAX_LINE_BYTES:]

    def close(self) -> None:
        if self._rest:
            self._line(self._rest)
            self._rest = b""

    def _line(self, line: bytes) -> None:
        # Only the last state of a progress bar, which overwrites itself.
        shown = _COLOUR.sub(b"", line).rstrip(b"\r").rpartition(b"\r")[2]
        for cut in range(0, len(shown), MAX_LINE_BYTES) or (0,):
            self._say(shown[cut : cut + MAX_LINE_BYTES].decode(errors="replace"))


class BuildProgress:
    def __init__(self, say: Say, scope: str = "") -> None:
        """`scope`: the secret value of the service (`guard.Around.scope`), which is masked in all lines."""
        self._scope, self._shown = scope, say
        self._last: deque[str] = deque(maxlen=MAX_KEPT_LINES)
        """The last output lines of the current or the failed step."""
        self._outputs: dict[str, deque[str]] = {}
        self._classic = LineSplitter(self._classic_line)
        self._lines: dict[str, LineSplitter] = {}
        self._names: dict[str, str] = {}
        self._told: set[str] = set()
        self._step = ""
        self._layer_is_ours = False
        self.error = ""
        self.named: deque[str] = deque(maxlen=MAX_RECORDED_LAYERS)
        """Layer ids in the output of the classic builder, in order. They are not trusted, because a build
        step can print such lines."""

    def take(self, message: Mapping[str, Any]) -> None:
        if "stream" in message:
            self._write(str(message["stream"]))
        elif message.get("id") == "moby.buildkit.trace":
            self._trace(base64.b64decode(message["aux"]))
        elif "error" in message:
            detail = message.get("errorDetail") or {}
            self.error = str(detail.get("message") or message["error"])
        elif "status" in message and "progressDetail" not in message:
            self._say(str(message["status"]))

    def close(self) -> None:
        self._classic.close()
        for lines in self._lines.values():
            lines.close()

    def _say(self, line: str) -> None:
        self._shown(self._masked(line))

    def _masked(self, text: str) -> str:
        return text.replace(self._scope, MASK) if self._scope else text

    @property
    def failure(self) -> str:
        """Returns an error message with a remedy and the reason of the failure, in terms of the
        Dockerfile."""
        return self._masked(self._reason())

    def _reason(self) -> str:
        code = _EXIT_CODE.search(self.error)
        why = f"it exited with code {code[1]}" if code else self.error
        if code and (line := error_line(self._last)):
            why = f"{line} (exit code {code[1]})"
        step = _MOUNTS.sub("", self._step)
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
        if _STEP.match(line):
            self._step, self._layer_is_ours = line.partition(" : ")[2], " : FROM " not in line
            self._last.clear()
        elif line == " ---> Using cache":
            self._layer_is_ours = False
        elif (match := _LAYER.match(line)) and self._layer_is_ours:
            self.named.append(match[1])
        if line.strip():
            self._last.append(line[:MAX_KEPT_LINE_LENGTH])
            self._say(line)

    def _trace(self, message: bytes) -> None:
        steps, outputs = trace.read(message)
        for step in steps:
            self._names[step.digest] = step.name
            self._report_step(step)
        for output in outputs:
            self._lines_of(output.digest).feed(output.text)

    def _report_step(self, step: trace.Vertex) -> None:
        if step.error:
            self._lines_of(step.digest).close()
            if "context canceled" not in step.error or not self._step:
                self._step, self._last = step.name, self._outputs.get(step.digest, self._last)
        if not step.started or step.digest in self._told or step.name.startswith(_HIDDEN_STEPS):
            return
        self._told.add(step.digest)
        self._say(f"{step.name} (from the cache)" if step.cached else step.name)

    def _lines_of(self, digest: str) -> LineSplitter:
        if digest not in self._lines:
            last = self._outputs[digest] = deque[str](maxlen=MAX_KEPT_LINES)

            def take(line: str) -> None:
                last.append(line[:MAX_KEPT_LINE_LENGTH])
                self._say(line)

            self._lines[digest] = LineSplitter(take)
        return self._lines[digest]
