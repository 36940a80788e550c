"""Beyond the contract: what a body may be, and how one that may not is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.contract import APPLICATION, is_refused, stocked
from tests.tables import rows

MOST = 1024 * 1024


async def sent(world, raw: bytes, **headers: str):
    return await world.call("POST", f"/organization/{world.org}/project", raw=raw, headers=headers)


@rows(
    ("path", "body"),
    [
        ("git_repository.colour", {"git_repository": {"url": "https://git.example/a/b", "colour": 1}}),
        ("ports[1].colour", {"ports": [{"internal_port": 80}, {"internal_port": 81, "colour": 1}]}),
        ("healthchecks.colour", {"healthchecks": {"colour": 1}}),
    ],
)
async def test_an_unknown_field_is_refused_by_its_path(embedded, path: str, body: dict[str, Any]) -> None:
    environment = await embedded.environment()
    answer = await embedded.post(f"/environment/{environment}/application", dict(APPLICATION) | body)
    is_refused(answer, 400, f"{path}: is not a field here")


@rows(
    ("path", "body", "meant"),
    [
        ("ports[0].port", {"ports": [{"port": 80}]}, "internal_port"),
        ("ports[0].internalPort", {"ports": [{"internalPort": 80}]}, "internal_port"),
        ("git_repository.repository", {"git_repository": {"repository": "x"}}, ""),
        ("min_instances", {"min_instances": 1}, "min_running_instances or max_running_instances"),
    ],
)
async def test_an_unknown_field_is_refused_with_suggestions(embedded, path, body, meant) -> None:
    environment = await embedded.environment()
    answer = await embedded.post(f"/environment/{environment}/application", dict(APPLICATION) | body)
    said = f"; did you mean {meant}?" if meant else ""
    is_refused(answer, 400, f"{path}: is not a field here{said}")


PLAIN = {name: value for name, value in APPLICATION.items() if name != "ports"}
RIGHT = '[{"internal_port": 8080, "publicly_accessible": true}]'


@pytest.mark.parametrize("base", ["", "/compat"])
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"ports": 8080}, f"ports: must be a list, not an integer; write {RIGHT}"),
        ({"ports": "8080"}, f"ports: must be a list, not a string; write {RIGHT}"),
        ({"ports": ["8080"]}, f"ports[0]: must be an object, not a string; write {RIGHT}"),
        ({"ports": [80, 8080]}, f"ports[0]: must be an object, not an integer; write {RIGHT}"),
        ({"ports": [{"port": 8080}]}, "ports[0].port: is not a field here; did you mean internal_port?"),
    ],
)
async def test_ports_in_another_form_are_refused_with_the_right_one(embedded, base, body, message) -> None:
    environment = await embedded.environment()
    whole = {"name": "web", "git_repository": {"url": "https://git.example/a/b"}}
    answer = await embedded.post(f"{base}/environment/{environment}/application", whole | body)
    if base and isinstance(body["ports"], list) and isinstance(body["ports"][0], dict):
        is_refused(answer, 400, "ports[0].internal_port: is required")  # unknown fields are ignored, as ever
    else:
        is_refused(answer, 400, message)
        patched = await embedded.patch(f"/application/{await embedded.application()}", body)
        is_refused(patched, 400, message.partition(":")[0], message.partition("; ")[2] or RIGHT)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_a_port_field_creates_one_public_http_port(embedded, method) -> None:
    """Clients of the full interface have unknown fields ignored, as ever."""
    whole = PLAIN | {"port": 8080}
    if method == "POST":
        answer = await embedded.post(f"/environment/{await embedded.environment()}/application", whole)
    else:
        sent = whole if method == "PUT" else {"port": 8080}
        answer = await embedded.call(method, f"/application/{await embedded.application()}", sent)
    assert answer.status in {200, 201}
    (port,) = answer["ports"]
    shown = (port["internal_port"], port["publicly_accessible"], port["protocol"], answer["automatic_port"])
    assert shown == (8080, True, "HTTP", False)
    other = await embedded.post(
        f"/compat/environment/{await embedded.environment()}/application", whole | {"name": "other"}
    )
    assert (other.status, other["ports"]) == (201, [])


@rows(
    ("body", "message"),
    [
        ({"port": "8080"}, "ports[0].internal_port: must be an integer, not a string"),
        ({"port": 0}, "ports[0].internal_port: must be at least 1"),
        ({"port": 8080, "ports": []}, "port: leave it out, or ports: it is the short form of that list"),
        ({"port": 8080, "colour": "teal"}, "colour: is not a field here"),
    ],
)
async def test_a_wrong_port_alone_is_refused(embedded, body, message) -> None:
    path = f"/environment/{await embedded.environment()}/application"
    is_refused(await embedded.post(path, PLAIN | body), 400, message)


async def test_unknown_fields_are_refused_in_changes_and_deploys_too(embedded) -> None:
    ids = await stocked(embedded)
    for method, path in (("PUT", "/project/{project_id}"), ("POST", "/application/{app_id}/deploy")):
        answer = await embedded.call(method, path.format(**ids), {"colour": "teal"})
        is_refused(answer, 400, "colour: is not a field here")


async def test_fields_that_the_server_sets_cannot_be_sent(embedded) -> None:
    for name in ("id", "created_at", "updated_at"):
        answer = await embedded.post(f"/organization/{embedded.org}/project", {"name": "x", name: "y"})
        is_refused(answer, 400, f"{name}: is not a field here")


async def test_unimplemented_fields_of_the_full_interface_are_stored_and_returned(world) -> None:
    fields = {"auto_preview": False, "gpu": 2, "cpu_architecture": "ARM64", "arguments": ["a", "b"]}
    read = await world.get(f"/application/{await world.application(**fields)}")
    assert {name: read[name] for name in fields} == fields


@rows(
    "raw",
    [
        b"{",
        b"}",
        b'{"name": "x"',
        b'{"name": "x"} {}',
        b'{"name": "x",}',
        b"{'name': 'x'}",
        b'{"name": NaN}',
        b'{"name": "\xff"}',
        b'{"name": "\\ud800"}',
        b'{"name": "a\nb"}',
        b"name=x",
        b"<name>x</name>",
        b"\xef\xbb\xbf{}",
        '{"name": "x"}'.encode("utf-16"),
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\x00",
    ],
    ids=lambda raw: repr(raw[:20]),
)
async def test_a_body_of_invalid_json_is_refused(embedded, raw: bytes) -> None:
    is_refused(await sent(embedded, raw), 400)


@rows("raw", [b"[]", b'[{"name": "x"}]', b'"name"', b"7", b"1.5", b"true", b"false"])
async def test_a_body_that_is_not_an_object_is_refused(embedded, raw: bytes) -> None:
    is_refused(await sent(embedded, raw), 400, "The body: must be an object")


@rows(
    "kind",
    [
        "text/plain",
        "text/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/xml",
        "application/jsonp",
        "application/json; charset=latin-1",
        "json",
        "",
    ],
)
async def test_a_body_of_another_type_is_refused(embedded, kind: str) -> None:
    is_refused(await sent(embedded, b'{"name": "x"}', **{"Content-Type": kind}), 400, "Content-Type: ")


async def test_a_request_without_a_body_may_have_any_content_type(embedded) -> None:
    deploy = f"/application/{await embedded.application()}/deploy"
    answer = await embedded.call("POST", deploy, headers={"Content-Type": "text/plain"})
    assert answer.status == 202


@pytest.mark.parametrize("raw", [b"", b"null", b" null ", b"{}", b" {\n} ", b"   "])
async def test_a_missing_body_a_null_and_an_empty_object_are_equivalent(embedded, raw: bytes) -> None:
    ids = await stocked(embedded)
    is_refused(await sent(embedded, raw), 400, "name: is required")
    for path in ("/application/{app_id}/deploy", "/database/{db_id}/deploy"):
        assert (await embedded.call("POST", path.format(**ids), raw=raw)).status == 202
    assert (await embedded.call("PUT", f"/project/{ids['project_id']}", raw=raw)).status == 200


async def test_a_body_of_exactly_the_size_limit_is_accepted_and_one_byte_more_is_refused(embedded) -> None:
    body = b'{"name": "x"}'
    assert (await sent(embedded, body + b" " * (MOST - len(body)))).status == 200
    is_refused(await sent(embedded, body + b" " * (MOST - len(body) + 1)), 413, str(MOST))


async def test_the_size_limit_applies_to_both_the_actual_and_the_declared_body_length(embedded) -> None:
    is_refused(await sent(embedded, b" " * (MOST + 1), **{"Content-Length": "10"}), 413)
    is_refused(await sent(embedded, b"{}", **{"Content-Length": str(MOST + 1)}), 413)


async def test_a_request_with_too_large_a_body_is_refused_and_changes_nothing(embedded) -> None:
    raw = b'{"name": "x", "description": "' + b"y" * MOST + b'"}'
    is_refused(await sent(embedded, raw), 413)
    assert (await embedded.get(f"/organization/{embedded.org}/project"))["results"] == []


async def test_text_fields_preserve_unicode_quotes_markup_and_line_breaks(world) -> None:
    for text in (
        "ünïcode ✓ 你好 🚀",
        "'; DROP TABLE resource; --",
        "<script>alert(1)</script>",
        "two\nlines\tand a tab",
    ):
        project = await world.project(description=text)
        assert (await world.get(f"/project/{project}"))["description"] == text


async def test_integer_fields_are_returned_without_a_decimal_point(embedded) -> None:
    application = await embedded.application(cpu=1000, memory=1024)
    body = (await embedded.get(f"/application/{application}")).body
    assert b'"cpu":1000,' in body
    assert b'"memory":1024,' in body


async def test_an_invalid_choice_is_answered_with_all_choices_and_the_nearest(world) -> None:
    body = {"name": "db", "type": "POSTGRES", "version": "16", "mode": "CONTAINER"}
    answer = await world.post(f"/environment/{await world.environment()}/database", body)
    choices = "MONGODB, MYSQL, POSTGRESQL, REDIS"
    is_refused(answer, 400, f"type: must be one of {choices}; did you mean POSTGRESQL?")
