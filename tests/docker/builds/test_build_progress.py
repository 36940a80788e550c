"""The secret of a service's cached steps is in no line that its users read."""

from __future__ import annotations

import base64

import pytest

from tests.tables import rows
from windlass.docker.builds import trace
from windlass.docker.builds.guard import SCOPE_ARGUMENT
from windlass.docker.builds.progress import MASK, BuildProgress

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
