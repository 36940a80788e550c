"""The build log has no secret, and hostile output of a build costs neither time nor memory."""

from __future__ import annotations

import base64
from itertools import starmap

import pytest

from tests.tables import rows
from windlass.docker.builds import trace
from windlass.docker.builds.guard import SCOPE_ARGUMENT
from windlass.docker.builds.progress import (
    MASK,
    MAX_FOLLOWED_STEPS,
    MAX_LOGGED_LINES,
    MAX_NAMED_STEPS,
    MAX_PART_LENGTH,
    BuildProgress,
    parts_of,
)
from windlass.docker.client import EngineRefused

SCOPE = "0123456789abcdef" * 2


@rows(
    "line",
    [
        f"Step 2/7 : ARG {SCOPE_ARGUMENT}={SCOPE}",
        f"{SCOPE_ARGUMENT}='{SCOPE}'",
        f"{SCOPE[:5]}{SCOPE}{SCOPE}",
        f"a\r{SCOPE}",
    ],
)
def test_the_scope_is_masked_in_the_output_of_the_classic_builder(line):
    said: list[str] = []
    progress = BuildProgress(said.append, SCOPE)
    progress.take({"stream": f"{line}\n"})
    progress.take({"stream": "the next line\n"})
    progress.close()
    assert len(said) == 2
    assert SCOPE not in said[0]
    assert MASK in said[0]
    assert said[1] == "the next line"


def test_the_scope_is_masked_in_the_output_of_buildkit(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    step = trace.Vertex("d", f"[2/2] RUN echo {SCOPE}", cached=False, started=True, completed=False, error="")
    output = trace.Output("d", f"{SCOPE_ARGUMENT}={SCOPE}\n".encode())
    monkeypatch.setattr(trace, "read", lambda message: ([step], [output]))
    progress = BuildProgress(said.append, SCOPE)
    progress.take({"id": "moby.buildkit.trace", "aux": base64.b64encode(b"x")})
    progress.close()
    assert said == [f"[2/2] RUN echo {MASK}", f"{SCOPE_ARGUMENT}={MASK}"]


def test_the_scope_is_masked_in_the_reason_of_a_failure() -> None:
    progress = BuildProgress(lambda line: None, SCOPE)
    progress.take({"stream": f"Step 3/3 : RUN echo {SCOPE}; exit 2\n"})
    progress.take({"stream": f"error: {SCOPE}\n"})
    progress.take({"error": f"The command 'echo {SCOPE}' returned a non-zero code: 2"})
    progress.close()
    assert SCOPE not in progress.failure
    assert MASK in progress.failure


def message(*fields: tuple[int, bytes]) -> dict[str, str]:
    """A message of BuildKit with these fields."""
    return {"id": "moby.buildkit.trace", "aux": base64.b64encode(b"".join(starmap(field, fields))).decode()}


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + length(len(content)) + content


def length(value: int) -> bytes:
    return (bytes([value & 0x7F | 0x80]) + length(value >> 7)) if value > 0x7F else bytes([value])


def output(digest: str, text: bytes) -> tuple[int, bytes]:
    return 3, field(1, digest.encode()) + field(4, text)


def step(digest: str, name: str, error: str = "") -> tuple[int, bytes]:
    return 1, b"".join(
        field(n, text.encode()) for n, text in ((1, digest), (3, name), (5, "now"), (7, error))
    )


@pytest.mark.timeout(30)
@rows(
    "found",
    [
        {"id": "moby.buildkit.trace", "aux": base64.b64encode(b"\xff" * 750_000).decode()},
        {"id": "moby.buildkit.trace", "aux": "not base64"},
        {"id": "moby.buildkit.trace", "aux": 7},
        {"id": "moby.buildkit.trace"},
        {"error": "no", "errorDetail": "no object"},
    ],
)
def test_a_message_that_no_engine_sends_is_refused_at_once(found):
    with pytest.raises(EngineRefused, match="does not answer like this"):
        BuildProgress(print).take(found)


def test_the_last_lines_of_a_bounded_number_of_steps_are_kept() -> None:
    said: list[str] = []
    progress = BuildProgress(said.append)
    for number in range(MAX_NAMED_STEPS + 100):
        progress.take(message(step(f"s{number}", "RUN a"), output(f"o{number}", b"begun")))
    assert len(progress._outputs) == len(progress._lines) == MAX_FOLLOWED_STEPS
    assert said.count("RUN a") == MAX_NAMED_STEPS
    assert "begun" in said, "the unfinished line of a step that is no longer followed"


@pytest.mark.timeout(30)
@pytest.mark.parametrize("line", [b"\n", b"y\n", b"a\r\n"])
def test_a_build_logs_a_bounded_number_of_lines_and_knows_the_last_ones(line: bytes) -> None:
    said: list[str] = []
    for builder in ("classic", "BuildKit"):
        said.clear()
        progress = BuildProgress(said.append)
        flood = line * (3_000_000 // len(line)) + b"\nerror: the reason\n"
        if builder == "classic":
            progress.take({"stream": "Step 2/2 : RUN make\n"})
            progress.take({"stream": "x\n" * MAX_LOGGED_LINES})
            progress.take({"stream": flood.decode()})
        else:
            progress.take(message(output("d", b"x\n" * MAX_LOGGED_LINES)))
            progress.take(message(output("d", flood)))
            progress.take(message(step("d", "RUN make", "exit code: 1")))
        progress.take({"error": "exit code: 1"})
        progress.close()
        assert len(said) == MAX_LOGGED_LINES + 1
        assert "left out" in said[-1]
        assert "RUN make: error: the reason" in progress.failure


@pytest.mark.timeout(30)
def test_a_long_step_and_a_long_error_are_examined_in_one_pass() -> None:
    progress = BuildProgress(print)
    progress.take(message(step("d", "RUN " + "--mount=" * 80_000, "exit code: 1")))
    progress.take({"error": f"process {'Because a.a-' * 60_000} did not complete: exit code: 7"})
    assert progress.failure.endswith("it exited with code 7")


def test_a_long_message_is_taken_in_parts() -> None:
    for other in ({"stream": "a\n"}, {"stream": 7}, message(output("d", b"x" * 5000)), {"error": "x" * 5000}):
        assert [*parts_of(other)] == [other]
    said: list[str] = []
    progress = BuildProgress(said.append)
    lines = [str(number) for number in range(3000)]
    parts = [*parts_of({"stream": "\n".join(lines)})]
    assert max(len(part["stream"]) for part in parts) == MAX_PART_LENGTH
    for part in parts:
        progress.take(part)
    progress.close()
    assert said == lines
