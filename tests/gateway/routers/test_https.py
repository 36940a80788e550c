"""HTTPS: requests, websockets and certificates."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.free_ports import free_port
from tests.gateway.routers.issuing import issue, issuing_authority
from tests.gateway.routers.secure_town import (
    DECODE_ERROR,
    NO_APPLICATION_PROTOCOL,
    UNRECOGNIZED_NAME,
    alert,
    ask_securely,
    hello_of,
    https_port,
    make_secure_town,
    said_to,
    secure_caller,
)
from tests.gateway.routers.sites import made
from tests.gateway.routers.town import SHOP, Heard, Town, make_town, reply, request, until
from windlass.routers.builtin import BuiltinRouter
from windlass.routers.builtin import https_port as https_port_module
from windlass.routers.builtin.https_port import TlsContexts
from windlass.routers.router import Challenge, Listen, RouteError
from windlass.routers.rules import RouteRules


@pytest.fixture
async def town() -> AsyncIterator[Town]:
    async with make_secure_town() as made_town:
        yield made_town


async def test_a_request_by_https_reaches_the_service(town: Town) -> None:
    shop = await town.instance()
    await town.shop(shop)
    async with secure_caller(https_port(town)) as caller:
        for number in range(3):
            said = await caller.ask(request(f"/{number}", "POST", body=b"x" * 100_000))
            assert (said.status, said.body) == (200, b"one")
    fields = shop.heard[0].fields
    assert fields["x-forwarded-proto"] == "https"
    assert fields["forwarded"].endswith("proto=https")
    assert fields["x-forwarded-for"] == "127.0.0.1"
    assert [heard.target for heard in shop.heard] == ["/0", "/1", "/2"]
    await town.ask(request())
    assert town.router.traffic()["shop"].requests == 4


async def test_large_answers_arrive_whole_by_https(town: Town) -> None:
    async def much(heard: Heard) -> None:
        heard.out.write(reply(b"x" * 5_000_000))

    await town.shop(await town.instance(answer=much))
    assert (await ask_securely(https_port(town), request())).body == b"x" * 5_000_000


async def test_an_answer_that_closes_the_connection_arrives_whole_by_https(town: Town) -> None:
    async def until_close(heard: Heard) -> None:
        heard.out.write(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2_000_000)
        heard.out.close()

    await town.shop(await town.instance(answer=until_close))
    async with secure_caller(https_port(town)) as caller:
        await caller.send(request())
        assert (await caller.rest()).endswith(b"x" * 2_000_000)


async def test_an_invalid_request_gets_its_answer_by_https(town: Town) -> None:
    async with secure_caller(https_port(town)) as caller:
        await caller.send(b"nonsense\r\n\r\n" + b"x" * 100_000)
        assert (await caller.rest()).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("is_rsa", [False, True])
async def test_tls_1_2_and_1_3_are_offered_with_both_kinds_of_keys(
    town: Town, version: ssl.TLSVersion, is_rsa: bool
) -> None:
    await town.shop(await town.instance())
    if is_rsa:
        key = rsa.generate_private_key(65537, 2048)
        await town.router.put_certificate("shop", issue(SHOP, key=key))
    context = issuing_authority().client()
    context.minimum_version = context.maximum_version = version
    async with secure_caller(https_port(town), context=context) as caller:
        assert (await caller.ask(request())).body == b"one"
        tls = caller.out.get_extra_info("ssl_object")
        assert tls.version() == version.name.replace("v1_", "v1.")
        assert tls.selected_alpn_protocol() == "http/1.1"


async def test_older_versions_of_tls_are_refused(town: Town) -> None:
    context = issuing_authority().client()
    with pytest.deprecated_call():
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
        async with secure_caller(https_port(town), context=context):
            pass
    async with secure_caller(https_port(town)) as caller:
        assert (await caller.ask(request())).status == 404


async def test_a_session_is_resumed(town: Town) -> None:
    """With a ticket. The standard library resumes sessions only with blocking sockets."""
    await town.shop(await town.instance())
    context = issuing_authority().client()

    def ask(session: ssl.SSLSession | None) -> tuple[ssl.SSLSession | None, bool]:
        with (
            socket.create_connection(("127.0.0.1", https_port(town))) as connection,
            context.wrap_socket(connection, server_hostname=SHOP, session=session) as tls,
        ):
            tls.sendall(request())
            assert tls.recv(1000)
            return tls.session, bool(tls.session_reused)

    session, reused = await asyncio.to_thread(ask, None)
    assert not reused
    assert (await asyncio.to_thread(ask, session))[1]


# Names


async def test_each_name_gets_its_own_certificate(town: Town) -> None:
    await town.router.put_certificate("wildcard", issue("*.example.com"))
    await town.router.put_certificate("exact", issue("shop.example.com"))
    for name, expected in (
        (SHOP, (SHOP,)),
        ("shop.example.com", ("shop.example.com",)),
        ("other.example.com", ("*.example.com",)),
    ):
        async with secure_caller(https_port(town), name) as caller:
            alternatives = caller.out.get_extra_info("peercert")["subjectAltName"]
            assert tuple(value for _, value in alternatives) == expected


async def test_a_new_certificate_is_served_from_the_next_connection_on(town: Town) -> None:
    await town.shop(await town.instance())
    async with secure_caller(https_port(town)) as before:
        await before.ask(request())
        await town.router.put_certificate("shop", issue(SHOP, begins=-0.5))
        assert (await before.ask(request())).body == b"one"
        async with secure_caller(https_port(town)) as after:
            certificates = [one.out.get_extra_info("peercert") for one in (before, after)]
            assert certificates[0]["serialNumber"] != certificates[1]["serialNumber"]
    await town.router.drop_certificate("shop")
    assert await said_to(https_port(town), hello_of(SHOP)) == alert(UNRECOGNIZED_NAME)


@pytest.mark.parametrize("name", ["unknown.example.com", ""])
async def test_a_name_without_certificate_gets_an_alert(town: Town, name: str) -> None:
    assert await said_to(https_port(town), hello_of(name)) == alert(UNRECOGNIZED_NAME)
    if name:
        with pytest.raises(ssl.SSLError, match="UNRECOGNIZED_NAME"):
            await ask_securely(https_port(town), request(), name)


async def test_unknown_names_are_refused_before_any_cryptography(town: Town) -> None:
    """Nothing of TLS is created for 500 names: neither a context, nor a connection."""
    names = [f"name-{number}.example.com" for number in range(500)]
    for name in names:
        assert await said_to(https_port(town), hello_of(name)) == alert(UNRECOGNIZED_NAME)
    assert not len(town.router._https.contexts)  # type: ignore[union-attr]
    assert len(town.router._https._refused_names) <= 100  # type: ignore[union-attr]
    assert not town.router.connections
    await town.shop(await town.instance())
    assert (await ask_securely(https_port(town), request())).body == b"one"
    assert len(town.router._https.contexts) == 1  # type: ignore[union-attr]


async def test_a_client_without_a_common_protocol_gets_an_alert(town: Town) -> None:
    data = hello_of(SHOP, ["h2"])
    assert await said_to(https_port(town), data) == alert(NO_APPLICATION_PROTOCOL)
    async with secure_caller(https_port(town), context=issuing_authority().client([])) as caller:
        assert (await caller.ask(request())).status == 404, "without a choice, it is served"


async def test_a_host_that_the_certificate_covers_is_served_on_the_same_connection(town: Town) -> None:
    await town.router.put_certificate("both", issue("a.example.com", "b.example.com"))
    one = await town.instance()
    await town.shop(one, hosts=("a.example.com", "b.example.com", "c.example.com"))
    async with secure_caller(https_port(town), "a.example.com") as caller:
        assert (await caller.ask(request(host="a.example.com"))).body == b"one"
        assert (await caller.ask(request(host="b.example.com"))).body == b"one"
        assert (await caller.ask(request(host="c.example.com"))).status == 421
        assert (await caller.ask(request(host="a.example.com"))).body == b"one"


async def test_an_http_request_to_the_https_port_is_told_to_use_https(town: Town) -> None:
    said = await said_to(https_port(town), request())
    assert said.startswith(b"HTTP/1.1 400 ")
    assert b"https://" in said


async def test_a_malformed_hello_gets_an_alert(town: Town) -> None:
    hello = bytearray(hello_of(SHOP))
    hello[44 + hello[43] : 46 + hello[43]] = b"\xff\xfe"  # the length of the list of ciphers
    assert await said_to(https_port(town), bytes(hello)) == alert(DECODE_ERROR)
    assert await said_to(https_port(town), b"\x80\x2e" + bytes(46)) == b"", "it may be no TLS at all"


async def test_a_tls_alpn_challenge_gets_its_certificate(town: Town) -> None:
    proof = issue("new.example.com")
    await town.router.put_challenge("c", Challenge("new.example.com", certificate=proof))
    context = issuing_authority().client(["acme-tls/1"])
    async with secure_caller(https_port(town), "new.example.com", context) as caller:
        tls = caller.out.get_extra_info("ssl_object")
        assert tls.selected_alpn_protocol() == "acme-tls/1"
        assert ssl.DER_cert_to_PEM_cert(tls.getpeercert(True)).encode() in proof.chain
        assert await caller.rest() == b"", "it serves no requests"
    plain = await said_to(https_port(town), hello_of("new.example.com"))
    assert plain == alert(UNRECOGNIZED_NAME), "the certificate is for the challenge only"
    other = await said_to(https_port(town), hello_of(SHOP, ["acme-tls/1"]))
    assert other == alert(UNRECOGNIZED_NAME)
    await town.router.drop_challenge("c")
    gone = await said_to(https_port(town), hello_of("new.example.com", ["acme-tls/1"]))
    assert gone == alert(UNRECOGNIZED_NAME)


async def test_contexts_that_were_not_used_for_longest_are_dropped(town: Town) -> None:
    table = town.router._shared.certificates
    contexts = TlsContexts(table, limit=3)
    for number in range(5):
        table.put(f"{number}", issue(f"{number}.example.com"))
        contexts.of(f"{number}")
    assert len(contexts) == 3
    kept = contexts.of("4")
    assert contexts.of("4") is kept
    table.put("4", issue("4.example.com"))
    assert contexts.of("4") is not kept


@pytest.mark.parametrize(("names", "least", "most"), [(1, 20, 20), (800, 2, 10)])
async def test_contexts_of_large_certificates_are_kept_up_to_a_size(
    town: Town, names: int, least: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(https_port_module, "_MAX_CONTEXT_BYTES", 1024 * 1024)
    table = town.router._shared.certificates
    contexts, certificate = TlsContexts(table), issue(*(f"{number}.example.com" for number in range(names)))
    for number in range(20):
        table.put(f"{number}", certificate)
        contexts.of(f"{number}")
    kept = len(contexts)
    assert least <= kept <= most
    for _ in range(3):
        contexts.of("19")
    assert len(contexts) == kept


async def test_a_certificate_that_cannot_be_read_refuses_only_its_own_names(town: Town) -> None:
    await town.shop(await town.instance())
    await town.router.put_certificate("lost", issue("lost.example.com"))
    town.router._shared.certificates._store.remove("certificate lost")
    with pytest.raises(ssl.SSLError, match="INTERNAL_ERROR"):
        await ask_securely(https_port(town), request(), "lost.example.com")
    assert (await ask_securely(https_port(town), request())).body == b"one"


# Tunnels


async def test_a_websocket_works_through_https(town: Town) -> None:
    async def echo(heard: Heard) -> None:
        heard.out.write(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n")
        while data := await heard.reader.read(100_000):
            heard.out.write(data)
        heard.out.close()

    shop = await town.instance(answer=echo)
    await town.shop(shop)
    async with secure_caller(https_port(town)) as caller:
        await caller.send(request("/", "GET", SHOP, "Upgrade: websocket", "Connection: upgrade"))
        assert b" 101 " in await caller.reader.readuntil(b"\r\n\r\n")
        for size in (1, 1000, 300_000):
            await caller.send(b"x" * size)
            assert await caller.reader.readexactly(size) == b"x" * size
        assert town.active() == 1
    await until(lambda: not shop.open and not town.router.connections)


async def test_a_websocket_that_the_service_ends_is_closed(town: Town) -> None:
    async def bye(heard: Heard) -> None:
        heard.out.write(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n")
        heard.out.write(b"bye")
        heard.out.write_eof()
        await heard.reader.read()

    await town.shop(await town.instance(answer=bye))
    async with secure_caller(https_port(town)) as caller:
        await caller.send(request("/", "GET", SHOP, "Upgrade: websocket", "Connection: upgrade"))
        await caller.reader.readuntil(b"\r\n\r\n")
        assert await caller.rest() == b"bye"


# HTTP and HTTPS


async def test_redirects_name_the_port_that_visitors_use(town: Town) -> None:
    await town.shop(await town.instance())
    for public, port in ((443, ""), (8443, ":8443"), (0, f":{https_port(town)}")):
        town.router.set_https_port(https_port(town), public)
        assert (await town.ask(request())).fields["location"] == f"https://{SHOP}{port}/"


async def test_http_is_redirected_once_the_certificate_is_live(town: Town) -> None:
    shop = await town.instance()
    await town.shop(shop, hosts=(SHOP, "plain.localhost"))
    said = await town.ask(request("/a%20b?c=d", "POST", body=b"x"))
    assert said.status == 308
    assert said.fields["location"] == f"https://{SHOP}:{https_port(town)}/a%20b?c=d"
    assert not shop.heard
    assert (await town.ask(request("/", "GET", "plain.localhost"))).body == b"one", "it has no certificate"
    await town.router.put_certificate("shop", issue(SHOP, begins=-5, ends=-1))
    assert (await town.ask(request())).body == b"one", "it has expired"
    await town.router.put_certificate("shop", issue(SHOP))
    assert (await town.ask(request())).status == 308
    await town.shop(shop, redirect=False)
    assert (await town.ask(request())).body == b"one"


async def test_the_usual_https_port_is_not_part_of_the_redirect(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    await town.shop()
    monkeypatch.setattr(town.router._shared, "https_port", 443)
    assert (await town.ask(request("/x"))).fields["location"] == f"https://{SHOP}/x"


async def test_challenges_are_not_redirected(town: Town) -> None:
    await town.shop(await town.instance())
    await town.router.put_challenge("c", Challenge(SHOP, "/.well-known/acme-challenge/a", b"proof"))
    assert (await town.ask(request("/.well-known/acme-challenge/a"))).body == b"proof"
    assert (await town.ask(request("/.well-known/acme-challenge/other"))).body == b"one"
    assert (await town.ask(request("/.well-known/other"))).status == 308


async def test_requests_of_a_trusted_proxy_are_not_redirected() -> None:
    """Its clients may have used HTTPS; they would be redirected forever."""
    async with make_secure_town(trusts=lambda network: network == "127.0.0.1") as town:
        await town.shop(await town.instance())
        assert (await town.ask(request())).body == b"one"


async def test_without_an_https_port_nothing_is_redirected() -> None:
    async with make_town() as town:
        await town.shop(await town.instance())
        await town.router.put_certificate("shop", issue(SHOP))
        assert (await town.ask(request())).body == b"one"


async def test_hsts_is_added_to_answers_by_https_only(town: Town) -> None:
    await town.shop(await town.instance(), hsts=3600, redirect=False)
    name = "strict-transport-security"
    async with secure_caller(https_port(town)) as caller:
        for _ in range(2):
            said = await caller.ask(request())
            assert (said.fields[name], said.body) == ("max-age=3600", b"one")
    assert name not in (await town.ask(request())).fields
    await town.shop(await town.instance())
    assert name not in (await ask_securely(https_port(town), request())).fields


async def test_hsts_of_an_application_is_kept(town: Town) -> None:
    async def answer(heard: Heard) -> None:
        heard.out.write(reply(b"x", "200 OK", "Strict-Transport-Security: max-age=1"))

    await town.shop(await town.instance(answer=answer), hsts=3600)
    async with secure_caller(https_port(town)) as caller:
        await caller.send(request())
        head = await caller.reader.readuntil(b"\r\n\r\n")
    assert head.count(b"Strict-Transport-Security") == 1
    assert b"max-age=1\r\n" in head


async def test_static_sites_are_served_by_https(town: Town, tmp_path) -> None:
    release, _ = made(tmp_path, {"index.html": b"hello", "large.bin": b"x" * 3_000_000})
    await town.shop(site=str(release), hsts=60)
    async with secure_caller(https_port(town)) as caller:
        for _ in range(3):
            said = await caller.ask(request())
            assert (said.body, said.fields["strict-transport-security"]) == (b"hello", "max-age=60")
        assert (await caller.ask(request("/large.bin"))).body == b"x" * 3_000_000


async def test_a_password_is_asked_for_by_https_only(town: Town) -> None:
    """By HTTP, the redirect comes first: others on the way could read the password."""
    rules = RouteRules(needs_login=True, headers=(("X-Own", "1"),), answer_seconds=30)
    await town.shop(await town.instance(), rules=rules, hsts=60)
    assert (await town.ask(request())).status == 308
    said = await ask_securely(https_port(town), request())
    assert said.status == 401
    rules = RouteRules(headers=(("X-Own", "1"),), answer_seconds=30)
    await town.shop(await town.instance(), rules=rules, hsts=60)
    async with secure_caller(https_port(town)) as caller:
        for _ in range(2):
            said = await caller.ask(request())
            assert (said.body, said.fields["x-own"]) == (b"one", "1")
            assert said.fields["strict-transport-security"] == "max-age=60"


# The port


async def test_a_port_in_use_is_refused_with_the_name_of_the_setting(town: Town) -> None:
    other = BuiltinRouter("127.0.0.1", 0, https_port=https_port(town))
    with pytest.raises(RouteError, match=rf"port {https_port(town)} .*https_port"):
        await other.start()
    await other.stop()


async def test_services_cannot_have_the_https_port(town: Town) -> None:
    with pytest.raises(RouteError, match="setting https_port"):
        await town.router.reserve("db", [Listen(https_port(town))])


async def test_the_https_port_can_be_changed_in_place(town: Town) -> None:
    await town.shop(await town.instance())
    former, port = https_port(town), free_port()
    async with secure_caller(former) as kept:
        await kept.ask(request())
        town.router.set_https_port(port)
        assert (await ask_securely(port, request())).body == b"one"
        assert (await kept.ask(request())).body == b"one"
    with pytest.raises(ConnectionRefusedError):
        await ask_securely(former, request())
    with pytest.raises(RouteError, match="gateway_port"):
        town.router.set_https_port(town.router.port)
    assert (await ask_securely(port, request())).body == b"one"
    town.router.set_https_port(0)
    with pytest.raises(ConnectionRefusedError):
        await ask_securely(port, request())


async def test_a_stopped_router_with_https_can_start_again(town: Town) -> None:
    port = https_port(town)
    await town.shop(await town.instance())
    async with secure_caller(port) as caller:
        await caller.ask(request())
        await town.router.stop()
        with contextlib.suppress(ssl.SSLError):
            assert await caller.rest() == b""
    with pytest.raises(ConnectionRefusedError):
        await ask_securely(port, request())
    await town.router.start()
    assert (await ask_securely(port, request())).body == b"one"
