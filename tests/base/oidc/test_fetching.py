"""Keys are found by discovery, fetched once, kept, and fetched again in time."""

from __future__ import annotations

import asyncio

import pytest

from tests.base.oidc.provider import HOUR, JWKS, MINUTE, WELL_KNOWN, Provider, accepted, refused, trusted
from tests.mint import ISSUER, NOW, jwk
from windlass.base.issuer_keys import MAX_DOCUMENT, IssuerUnreachable, TokenRefused
from windlass.base.oidc import Verifier


async def unreachable(verifier: Verifier, token: str) -> IssuerUnreachable:
    with pytest.raises(IssuerUnreachable, match="cannot be reached") as caught:
        await verifier.verify(token)
    return caught.value


@pytest.mark.parametrize("issuer", ["https://id.example.com", "https://id.example.com/", f"{ISSUER}/"])
async def test_discovery_is_requested_below_the_issuer_without_a_trailing_slash(mint, clock, issuer):
    provider = Provider(mint.jwks(), issuer)
    await accepted(Verifier([trusted(issuer=issuer)], provider.fetch, clock), mint.token(iss=issuer))
    assert provider.asked == [issuer.rstrip("/") + WELL_KNOWN, JWKS]


@pytest.mark.parametrize("named", ["https://evil.example", ISSUER + "/", ISSUER.upper(), None, [ISSUER]])
async def test_a_discovery_document_of_another_issuer_is_refused(mint, verifier, provider, named):
    provider.discovery["issuer"] = named
    failure = await unreachable(verifier, mint.token())
    assert "another issuer" in str(failure.__cause__)
    assert JWKS not in provider.asked


@pytest.mark.parametrize(
    "uri", ["http://keys.example.com/jwks", "file:///etc/passwd", "//x", "", None, ["https://x"]]
)
async def test_keys_of_an_https_issuer_are_fetched_over_https_only(mint, verifier, provider, uri):
    provider.discovery["jwks_uri"] = uri
    failure = await unreachable(verifier, mint.token())
    assert "https" in str(failure.__cause__)
    assert len(provider.asked) == 1


async def test_keys_may_be_fetched_over_http_if_the_issuer_itself_uses_http(mint, clock):
    issuer = "http://127.0.0.1:4000"
    provider = Provider(mint.jwks(), issuer)
    provider.discovery["jwks_uri"] = f"{issuer}/jwks"
    await accepted(Verifier([trusted(issuer=issuer)], provider.fetch, clock), mint.token(iss=issuer))


BROKEN = [b"", b"<html>", b"[]", b'{"keys": 1}', b'{"keys": [], "keys": []}', b"\xff", b"{}", b"[" * 9999]


@pytest.mark.parametrize("which", ["discovery", "jwks"])
@pytest.mark.parametrize("document", [*BROKEN, b'{"keys": []}'.ljust(MAX_DOCUMENT + 1)], ids=lambda d: d[:20])
async def test_documents_that_are_too_long_or_invalid_are_refused(mint, verifier, provider, which, document):
    setattr(provider, which, document)
    failure = await unreachable(verifier, mint.token())
    assert isinstance(failure.__cause__, TokenRefused)


async def test_an_unreachable_issuer_is_reported_without_its_host_name(mint, verifier, provider):
    provider.down = True
    failure = await unreachable(verifier, mint.token())
    assert isinstance(failure, TokenRefused)
    assert "10.0.0.1" not in str(failure)
    assert "example" not in str(failure)
    assert isinstance(failure.__cause__, OSError)


async def test_keys_are_fetched_once_an_hour(mint, verifier, provider, clock):
    token = mint.token(exp=NOW + 2 * HOUR)
    for passed, fetches in ((0, 1), (1, 1), (HOUR - 1, 1), (HOUR, 2), (HOUR + MINUTE, 2)):
        clock.time = NOW + passed
        await accepted(verifier, token)
        assert provider.fetches == fetches


async def test_a_new_key_is_found_by_its_unknown_kid(mint, verifier, provider, clock):
    provider.jwks = {"keys": [{**jwk(mint.rsa), "kid": "rsa"}]}
    await accepted(verifier, mint.token())
    clock.time += 30
    provider.jwks = {"keys": [{**jwk(mint.ec), "kid": "ec"}]}
    await accepted(verifier, mint.token("ec"))
    assert provider.fetches == 2
    await refused(verifier, "no key", mint.token())


async def test_tokens_with_unknown_kids_cause_at_most_one_key_fetch_per_interval(
    mint, verifier, provider, clock
):
    for second_passed in range(120):
        clock.time = NOW + second_passed
        await refused(verifier, "no key", mint.token(header={"kid": f"garbage {second_passed}"}))
    assert provider.fetches == 4


async def test_the_interval_between_fetches_of_keys_is_a_setting(mint, provider, clock):
    verifier = Verifier([trusted()], provider.fetch, clock, refetch_every=5)
    for passed in range(10):
        clock.time = NOW + passed
        await refused(verifier, "no key", mint.token(header={"kid": "garbage"}))
    assert provider.fetches == 2


async def test_an_unreachable_issuer_is_retried_only_once_per_interval(mint, verifier, provider, clock):
    provider.down = True
    for passed in range(60):
        clock.time = NOW + passed
        await unreachable(verifier, mint.token())
    assert provider.fetches == 2
    provider.down, clock.time = False, NOW + 60
    await accepted(verifier, mint.token())


async def test_failures_of_one_issuer_do_not_affect_another(mint, clock):
    down, up = Provider(mint.jwks()), Provider(mint.jwks(), "https://up.example")
    down.down = True

    async def fetch(url: str) -> bytes:
        return await (up if url in ("https://up.example" + WELL_KNOWN, JWKS) else down).fetch(url)

    verifier = Verifier([trusted(), trusted(issuer="https://up.example")], fetch, clock)
    await unreachable(verifier, mint.token())
    await accepted(verifier, mint.token(iss="https://up.example"))


async def test_waiting_callers_share_one_fetch(mint, verifier, provider):
    provider.answering.clear()
    waiting = [asyncio.create_task(verifier.verify(mint.token())) for _ in range(20)]
    await asyncio.sleep(0)
    provider.answering.set()
    assert len(await asyncio.gather(*waiting)) == 20
    assert provider.asked == [ISSUER + WELL_KNOWN, JWKS]


async def test_callers_waiting_for_newer_keys_share_one_fetch(mint, verifier, provider, clock):
    await accepted(verifier, mint.token())
    clock.time += HOUR
    provider.answering.clear()
    provider.jwks = {"keys": []}
    waiting = [asyncio.create_task(verifier.verify(mint.token(exp=NOW + 2 * HOUR))) for _ in range(5)]
    await asyncio.sleep(0)
    provider.answering.set()
    judged = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(each, TokenRefused) for each in judged)
    assert provider.fetches == 2


async def test_no_second_key_fetch_starts_while_a_slow_one_is_under_way(mint, verifier, provider, clock):
    provider.answering.clear()
    early = asyncio.create_task(verifier.verify(mint.token()))
    await asyncio.sleep(0)
    clock.time += 5 * MINUTE
    late = asyncio.create_task(verifier.verify(mint.token()))
    await asyncio.sleep(0)
    provider.answering.set()
    assert await early == await late
    assert provider.fetches == 1


async def test_a_cancelled_caller_does_not_cancel_the_fetch_for_others(mint, verifier, provider):
    provider.answering.clear()
    impatient = asyncio.create_task(verifier.verify(mint.token()))
    patient = asyncio.create_task(verifier.verify(mint.token()))
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.wait([impatient])
    provider.answering.set()
    assert (await patient)["sub"] == "ada"
    assert impatient.cancelled()
    assert provider.fetches == 1


async def test_cached_keys_stay_valid_for_a_day_while_the_issuer_is_unreachable(
    mint, verifier, provider, clock
):
    token = mint.token(exp=NOW + 48 * HOUR)
    await accepted(verifier, token)
    provider.down = True
    for passed in (HOUR, 5 * HOUR, 24 * HOUR - 1):
        clock.time = NOW + passed
        await accepted(verifier, token)
    await refused(verifier, "no key", mint.token(header={"kid": "unheard of"}))
    clock.time = NOW + 24 * HOUR
    await unreachable(verifier, token)
    provider.down, clock.time = False, clock.time + MINUTE
    await accepted(verifier, token)


async def test_a_key_removed_by_the_issuer_is_refused_after_an_hour(mint, verifier, provider, clock):
    token = mint.token(exp=NOW + 2 * HOUR)
    await accepted(verifier, token)
    provider.jwks = {"keys": []}
    clock.time += HOUR
    await refused(verifier, "no key", token)


async def test_a_clock_that_is_turned_back_does_not_stop_the_fetching(mint, verifier, provider, clock):
    clock.time = NOW + 48 * HOUR
    await accepted(verifier, mint.token(exp=clock.time + 1))
    clock.time = NOW
    provider.jwks = {"keys": [{**jwk(mint.ec), "kid": "new"}]}
    await accepted(verifier, mint.token("ec", header={"kid": "new"}))
