"""Refusals of routers and of the table of names tell nothing about services of other organizations."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.router import FakeRouter
from tests.free_ports import free_port
from tests.source import folder_of, place
from tests.tables import rows
from windlass.routers.builtin import BuiltinRouter
from windlass.routers.router import Listen, Route, RouteError, Router

OWN = {
    "port", "self._port", "host", "holder", "way_out", "_PRIVILEGED_PORTS", "name", "listener_key",
    "route.external", "route.title", "error.strerror or error", "log_file", "self._process",
    "current_request.host", "current_request.port", "current_request.https_port", "advice",
    "names", "reason",
}  # fmt: skip
"""Expressions in messages that are about the service that asks, or about the gateway."""
FILES = [
    *(file for name in ("routers", "gateway") for file in folder_of(name).rglob("*.py")),
    folder_of("control/records/names.py"),
]


def expressions(source: str) -> Iterator[str]:
    """Yields what the messages of refusals contain: those raised, and those of functions that word them."""
    for node in ast.walk(ast.parse(source)):
        is_refusal = (isinstance(node, ast.Call) and ast.unparse(node.func) == "RouteError") or (
            isinstance(node, ast.FunctionDef) and node.name == "explain"
        )
        if is_refusal:
            for part in ast.walk(node):
                if isinstance(part, ast.FormattedValue):
                    yield ast.unparse(part.value)


@rows("file", FILES, ids=place)
def test_route_refusals_contain_only_values_of_the_requesting_service(file: Path):
    assert set(expressions(file.read_text())) <= OWN


def test_the_check_finds_a_refusal_that_names_the_other_service():
    source = 'raise RouteError(f"port {port} is in use by {self._table.title(other)}")'
    assert set(expressions(source)) - OWN == {"self._table.title(other)"}


@pytest.mark.parametrize("make", [lambda: BuiltinRouter("127.0.0.1", 0), FakeRouter], ids=["builtin", "fake"])
async def test_a_taken_port_is_refused_without_the_name_of_its_holder(make):
    router: Router = make()
    await router.start()
    try:
        port = free_port()
        await router.reserve("id-of-globex", [Listen(port, local=True)])
        payroll = Route(service="id-of-globex", port="p1", title="Payroll", kind="tcp", external=port)
        await router.set("id-of-globex", [payroll])
        with pytest.raises(RouteError) as refused:
            await router.reserve("id-of-acme", [Listen(port, local=True)])
    finally:
        await router.stop()
    assert str(refused.value) == f"Choose another external_port: port {port} is in use by another service"
