"""A build step is given the registries of its own tool, and no credentials of another one."""

from __future__ import annotations

import pytest

from windlass.process.builds.tools import environment_for

SURROUNDINGS = {
    "PIP_INDEX_URL": "https://reader:pip-canary@pypi.example/simple",
    "UV_INDEX_URL": "https://reader:uv-canary@pypi.example/simple",
    "NPM_CONFIG_REGISTRY": "https://reader:npm-canary@npm.example/",
    "npm_config__auth": "npm-canary",
    "HTTPS_PROXY": "http://proxy.example:3128",
    "PATH": "/usr/bin",
}


@pytest.mark.parametrize(
    ("program", "other"),
    [("npm", ("pip-", "uv-")), ("pip", ("npm-",)), ("uv", ("npm-",)), ("python3", ("npm-",))],
)
def test_a_build_tool_gets_no_registry_credentials_of_another_tool(program: str, other: tuple[str, ...]):
    given = environment_for(program, SURROUNDINGS)
    assert not [value for value in given.values() if any(f"{one}canary" in value for one in other)]
    assert {"HTTPS_PROXY", "PATH"} <= given.keys()


@pytest.mark.parametrize(
    ("program", "own"), [("npm", "npm-canary"), ("pip", "pip-canary"), ("uv", "uv-canary")]
)
def test_a_build_tool_gets_its_own_registry(program: str, own: str):
    assert any(own in value for value in environment_for(program, SURROUNDINGS).values())
