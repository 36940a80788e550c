"""The reason of a build that failed is a whole sentence of its program, and no part of one."""

from __future__ import annotations

import pytest

from windlass.builders.remedies import failure

MANY = ", ".join(f"1.{number}" for number in range(40))


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            [
                "error during build:",
                'main.js (1:9): "greet" is not exported by "shared.js".',
                "file: main.js",
            ],
            'during build: main.js (1:9): "greet" is not exported by "shared.js". The',
        ),
        (
            ["Could not reach host index.example.org. Check your network connection and try", "again."],
            "Check your network connection and try again. The",
        ),
        (
            [f"ERROR: Could not find a version that satisfies flask==99 (from versions: {MANY})"],
            "flask==99 (from versions: …, 1.37, 1.38, 1.39). The",
        ),
        (
            ["ERROR: Could not find a version that satisfies the requirement x==9 (from versions: 1.0, 1.1)"],
            "x==9 (from versions: 1.0, 1.1). The",
        ),
        (["first", "Second of two."], "(exit code 1): Second of two. The"),
        (["It said why.", "and then this"], "(exit code 1): and then this. The"),
    ],
)
def test_a_reason_is_a_whole_sentence(output, reason):
    assert reason in failure("the build", 1, output)
