"""A server remembers the digests of the images that it has pushed."""

from __future__ import annotations

import uuid

import pytest

from windlass.docker.builds.published_digests import PublishedDigests

DIGEST = f"sha256:{'1' * 64}"


async def test_digests_are_kept_until_their_builds_or_services_are_gone(tmp_path):
    digests = PublishedDigests(tmp_path / "published")
    one, other = (str(uuid.uuid4()) for _ in range(2))
    for service, key in ((one, "k1"), (one, "k2"), (other, "k1")):
        assert not await digests.get(f"windlass/{service}:{key}")
        await digests.record(f"windlass/{service}:{key}", DIGEST)
    digests = PublishedDigests(tmp_path / "published")
    await digests.prune(one, ["k2"])
    assert not await digests.get(f"windlass/{one}:k1")
    assert await digests.get(f"windlass/{one}:k2") == DIGEST
    assert set(await digests.services()) == {one, other}
    for _ in range(2):
        await digests.discard(one)
        await digests.forget(f"windlass/{one}:k2")
    assert not await digests.get(f"windlass/{one}:k2")
    assert set(await digests.services()) == {other}


@pytest.mark.parametrize("content", [b"", b"latest", b"\xff", DIGEST[:-1].encode()])
async def test_a_damaged_file_counts_as_no_digest(tmp_path, content):
    digests, service = PublishedDigests(tmp_path), str(uuid.uuid4())
    await digests.record(f"windlass/{service}:k1", DIGEST)
    (tmp_path / service / "k1").write_bytes(content)
    assert not await digests.get(f"windlass/{service}:k1")


@pytest.mark.parametrize("name", ["windlass/../../x:k1", "windlass/x:k1", "shop/web:1"])
async def test_a_name_that_is_not_of_a_build_names_no_file(tmp_path, name):
    with pytest.raises(ValueError, match="is not the name of a build"):
        await PublishedDigests(tmp_path).get(name)
