"""Advanced settings of public routes reach the router at once, without a deployment."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.world import World, make_world
from windlass.routers.router import Route
from windlass.routers.rules import (
    NO_RULES,
    RouteCors,
    RouteMaintenance,
    RouteRate,
    RouteRetry,
    RouteRules,
    RouteTimes,
)

NETWORK = "network.ingress."
RETRY = "network.gateway_api.retry."
OWN = "windlass."
PORTS = [{"internal_port": 80, "publicly_accessible": True}]

SHA_OF_ONE = "{SHA}/gW83NxJKAEngaXxoqd8u1OY4QY="


@pytest.fixture
async def world(database_url):
    async with make_world(database_url) as made:
        yield made


async def running(world: World, users: str = "") -> str:
    app = await world.application(ports=PORTS)
    if users:
        secret = {"key": "SITE_USERS", "value": users}
        assert (await world.post(f"/application/{app}/secret", secret)).status == 201
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    return app


async def changed(world: World, app: str, settings: dict[str, Any]) -> Route:
    """The public route after a change of the settings."""
    nudged: list[str] = []
    world.installation.ctx.store.listen(nudged.append, "route")
    answer = await world.put(f"/application/{app}/advancedSettings", settings)
    assert answer.status == 201, answer
    await asyncio.sleep(0)
    assert {*nudged} == {f"route:{app}"}  # PostgreSQL tells it to the server that has changed it, too
    world.installation.routes.note([app])
    await world.installation.routes.catch_up(5)
    return route_of(world, app)


def route_of(world: World, app: str) -> Route:
    found: Route = next(route for route in world.router.routes[app] if route.hosts)
    return found


@pytest.mark.parametrize(
    ("settings", "rules"),
    [
        ({"proxy_body_size_mb": 8}, RouteRules(body_bytes=8 * 1024 * 1024)),
        ({"proxy_read_timeout_seconds": 30}, RouteRules(answer_seconds=30)),
        ({"whitelist_source_range": "10.0.0.0/8, ::1"}, RouteRules(allowed=("10.0.0.0/8", "::1"))),
        ({"denylist_source_range": "192.0.2.0/24"}, RouteRules(denied=("192.0.2.0/24",))),
        ({"extra_headers": '{"X-A": "DENY"}'}, RouteRules(headers=(("X-A", "DENY"),))),
        (
            {"enable_cors": True, "cors_allow_origin": "https://a.example"},
            RouteRules(cors=RouteCors(("https://a.example",), "GET, PUT, POST, DELETE, PATCH, OPTIONS", (
                "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,"
                "Authorization"
            ))),
        ),
    ],
    ids=lambda value: next(iter(value), "") if isinstance(value, dict) else "",
)  # fmt: skip
async def test_a_changed_setting_is_a_rule_of_the_route_at_once(
    world: World, settings: dict[str, Any], rules: RouteRules
) -> None:
    app = await running(world)
    assert route_of(world, app).rules == NO_RULES
    sent = {NETWORK + name: value for name, value in settings.items()}
    assert (await changed(world, app, sent)).rules == rules
    status = await world.get(f"/application/{app}/status")
    assert status["service_deployment_status"] == "UP_TO_DATE"
    assert (await changed(world, app, {})).rules == NO_RULES


CASES: list[tuple[dict[str, Any], RouteRules]] = [
    (
        {f"{RETRY}num_retries": 3},
        RouteRules(retry=RouteRetry(3, ("connect-failure", "reset", "retriable-status-codes"), (503,))),
    ),
    (
        {
            f"{RETRY}num_retries": 50,
            f"{RETRY}retry_on": "5xx, unavailable",
            f"{RETRY}http_status_codes": "429,503",
            f"{RETRY}per_try_timeout_seconds": 2,
        },
        RouteRules(retry=RouteRetry(10, ("5xx", "unavailable"), (429, 503), 2)),
    ),
    ({f"{RETRY}retry_on": "5xx", f"{RETRY}num_retries": 0}, NO_RULES),
    (
        {
            f"{NETWORK}proxy_connect_timeout_seconds": 1000,
            f"{NETWORK}proxy_send_timeout_seconds": 1000,
            f"{NETWORK}send_timeout_seconds": 10_000,
            f"{NETWORK}keepalive_timeout_seconds": 10_000,
            f"{NETWORK}keepalive_time_seconds": 10_000,
        },
        RouteRules(times=RouteTimes(300, 1000, 3600, 3600, 10_000)),
    ),
    (
        {
            f"{NETWORK}keepalive_timeout_seconds": 20,
            "network.gateway_api.http_connection_idle_timeout_seconds": 10,
        },
        RouteRules(times=RouteTimes(idle=10)),
    ),
    (
        {
            f"{NETWORK}enable_cors": True,
            f"{NETWORK}cors_allow_origin": "https://a.example, https://b.example",
            f"{NETWORK}cors_allow_methods": "GET",
            f"{NETWORK}cors_allow_headers": "X-Colour",
        },
        RouteRules(cors=RouteCors(("https://a.example", "https://b.example"), "GET", "X-Colour")),
    ),
    ({f"{NETWORK}cors_allow_methods": "GET", f"{NETWORK}cors_allow_headers": "X-Colour"}, NO_RULES),
    ({f"{OWN}rate_limit.requests_per_minute": 60}, RouteRules(rate=RouteRate(60, 60))),
    (
        {f"{OWN}rate_limit.requests_per_minute": 60, f"{OWN}rate_limit.burst": 5},
        RouteRules(rate=RouteRate(60, 5)),
    ),
    ({f"{OWN}rate_limit.burst": 5}, NO_RULES),
    ({f"{OWN}compression.enable": True}, RouteRules(compresses=True)),
    ({f"{OWN}pages.error": "<h1>{title}</h1>"}, RouteRules(error_page="<h1>{title}</h1>")),
    ({f"{OWN}maintenance.page": "<h1>Later</h1>"}, NO_RULES),
    (
        {
            f"{OWN}maintenance.enable": True,
            f"{OWN}maintenance.page": "<h1>Later</h1>",
            f"{OWN}maintenance.allowed_source_range": "10.0.0.0/8",
        },
        RouteRules(maintenance=RouteMaintenance("<h1>Later</h1>", ("10.0.0.0/8",))),
    ),
]


async def test_settings_of_the_gateway_are_rules(world: World) -> None:
    app = await running(world)
    for settings, rules in CASES:
        assert (await changed(world, app, settings)).rules == rules, settings


async def test_sessions_of_each_service_have_a_key_of_its_own(world: World) -> None:
    keys = [
        (await changed(world, await running(world), {f"{NETWORK}enable_sticky_session": True})).rules.sticky
        for _ in range(2)
    ]
    assert [len(key) for key in keys] == [32, 32]
    assert keys[0] != keys[1]


async def test_an_unknown_failure_is_refused_with_those_that_there_are(world: World) -> None:
    path = f"/application/{await world.application()}/advancedSettings"
    answer = await world.put(path, {f"{RETRY}retry_on": "5xx,everything"})
    assert answer.status == 400
    assert answer.message.startswith(
        f"{RETRY}retry_on: everything is no failure such as 5xx, connect-failure"
    )


async def test_the_shorter_of_both_time_limits_counts(world: World) -> None:
    app = await running(world)
    limits = {
        f"{NETWORK}proxy_read_timeout_seconds": 30,
        "network.gateway_api.http_request_timeout_seconds": 20,
    }
    assert (await changed(world, app, limits)).rules.answer_seconds == 20


async def test_a_service_may_leave_http_as_it_is(world: World) -> None:
    app = await running(world)
    assert route_of(world, app).redirect
    assert not (await changed(world, app, {f"{NETWORK}force_ssl_redirect": False})).redirect


async def test_browsers_are_told_to_use_https_only_for_as_long_as_is_set(world: World) -> None:
    app = await running(world)
    assert route_of(world, app).hsts == 0
    assert (await changed(world, app, {f"{OWN}hsts.max_age_seconds": 300})).hsts == 300


async def test_the_router_gets_digests_of_the_passwords_in_the_variable(world: World) -> None:
    app = await running(world, "ada:engine\nbob:{SHA}hash\neve:$apr1$salt$hash\nnobody")
    rules = (await changed(world, app, {f"{NETWORK}basic_auth_env_var": "SITE_USERS"})).rules
    assert rules.needs_login
    assert [(login.user, login.fits(b"engine")) for login in rules.logins] == [("ada", True), ("bob", False)]
    assert "engine" not in repr(rules)


@pytest.mark.parametrize(
    ("users", "found"),
    [
        ("ada:one,two:three\r\nbob:four", [("ada", b"one,two:three"), ("bob", b"four")]),
        ("ada:{SHA}/rVm, bob:{SHA}x,y:z", [("ada", b"")]),
        (
            f"ada:{SHA_OF_ONE},bob:{SHA_OF_ONE} , eve:{SHA_OF_ONE}",
            [(name, b"one") for name in ("ada", "bob", "eve")],
        ),
        (f"{SHA_OF_ONE}", []),
    ],
    ids=["clear", "mixed", "hashes", "no user"],
)
async def test_only_hashes_are_separated_by_commas(
    world: World, users: str, found: list[tuple[str, bytes]]
) -> None:
    app = await running(world, users)
    rules = (await changed(world, app, {f"{NETWORK}basic_auth_env_var": "SITE_USERS"})).rules
    assert [login.user for login in rules.logins] == [user for user, _ in found]
    assert all(
        login.fits(password) for login, (_, password) in zip(rules.logins, found, strict=True) if password
    )


async def test_the_router_gets_at_most_100_logins_and_one_of_each_user(world: World) -> None:
    long = f"long:{'x' * 700}"
    app = await running(world, "\n".join([long, "ada:first", "ada:second", *(f"u{n}:p" for n in range(150))]))
    rules = (await changed(world, app, {f"{NETWORK}basic_auth_env_var": "SITE_USERS"})).rules
    assert [login.user for login in rules.logins] == ["ada", *(f"u{n}" for n in range(99))]
    assert rules.logins[0].fits(b"first")


async def test_a_missing_variable_for_basic_auth_logins_refuses_all_requests(world: World) -> None:
    app = await running(world)
    rules = (await changed(world, app, {f"{NETWORK}basic_auth_env_var": "SITE_USERS"})).rules
    assert (rules.needs_login, rules.logins) == (True, ())


async def test_headers_that_frame_an_answer_are_refused(world: World) -> None:
    path = f"/application/{await world.application()}/advancedSettings"
    answer = await world.put(path, {f"{NETWORK}extra_headers": '{"Content-Length": "0"}'})
    assert answer.status == 400
    assert answer.message == f"{NETWORK}extra_headers: leave out Content-Length: the gateway sets it itself"
