"""What an engine is, as tests that every engine passes."""

import pytest

pytest.register_assert_rewrite("tests.engines.conformance", "tests.engines.stations")
