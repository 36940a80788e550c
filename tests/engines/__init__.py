"""The promises of an engine, as tests that every engine passes."""

import pytest

pytest.register_assert_rewrite(
    *(f"tests.engines.{name}" for name in ("conformance", "lifecycle", "once", "rollouts", "stations"))
)
