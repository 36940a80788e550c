"""The engine's message for a program that cannot be started is explained, and its imitation costs no time."""

from __future__ import annotations

import pytest

from windlass.docker.execution import _explain_refused_start

REFUSED = b'OCI runtime exec failed: exec failed: unable to start: exec: "%s": %s: unknown\r\n'


def test_the_message_of_the_engine_is_explained():
    absent = REFUSED % (b"bash", b"executable file not found in $PATH")
    assert _explain_refused_start(absent) == b"There is no program bash in this instance.\r\n"
    assert _explain_refused_start(REFUSED % (b"/x", b"permission denied")) == (
        b"The program /x cannot be started: permission denied.\r\n"
    )


@pytest.mark.parametrize("inner", [b" " * 1_000_000, b'exec: "x": ' * 100_000, b'exec: "' * 100_000])
def test_a_program_that_imitates_the_message_does_not_keep_the_server_busy(inner):
    # An expression that tries each place anew would need hours.
    piece = b'OCI runtime exec failed: exec: "x": ' + inner + b"a"
    assert _explain_refused_start(piece) == piece
