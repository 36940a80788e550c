"""The message of a build that fails: its first sentence says what to do."""

from __future__ import annotations

import errno
import os

import pytest
from windlass.builders.native.failures import failure, in_plain_words

from windlass.builders.builder import BuildError

MEMORY = "Make the build use less memory, or ask the operator for a machine with more: npm ran out of memory"
ROOM = "Ask the operator for room: the disk of the machine that runs Windlass is full."


@pytest.mark.parametrize(
    ("code", "line", "begins"),
    [
        (-9, "compiling", MEMORY),
        (137, "compiling", MEMORY),
        (134, "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory", MEMORY),
        (1, "go build: compile: signal: killed", MEMORY),
        (101, "process didn't exit successfully: `rustc` (signal: 9, SIGKILL: kill)", MEMORY),
        (1, "java.lang.OutOfMemoryError: Java heap space", MEMORY),
        (4, "c++: fatal error: Killed signal terminated program cc1plus", MEMORY),
        (1, "memory allocation of 4096 bytes failed", MEMORY),
        (1, "MemoryError", MEMORY),
        (255, "PHP Fatal error: Allowed memory size of 134217728 bytes exhausted", MEMORY),
        (1, "write /x: no space left on device", ROOM),
        (1, "npm error ENOSPC: write", ROOM),
        (1, "Disk quota exceeded", ROOM),
        (-25, "", "Make the build write smaller files: npm wrote one"),
        (1, "go: write: File too large", "Make the build write smaller files: npm wrote one"),
        (-11, "", "Mend npm: it was ended by signal 11."),
        # Negative control: another reason is told as it is.
        (1, "error: cannot find value `x`", "npm failed (exit code 1): cannot find value `x`. The build log"),
    ],
)
def test_a_failed_step_says_first_what_to_do(code, line, begins):
    assert failure("npm", code, ["first line", line]).startswith(begins)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_says_first_what_to_do(number):
    with pytest.raises(BuildError, match=r"^Ask the operator for room: "), in_plain_words():
        raise OSError(number, os.strerror(number))
