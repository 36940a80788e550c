"""The files of a build are compared with a hostile .dockerignore in limited time."""

from __future__ import annotations

import asyncio
from pathlib import PurePosixPath

import pytest

from windlass.base import dockerignore
from windlass.builders.builder import BuildError
from windlass.docker.builds import context as contexts
from windlass.docker.builds.context import BuildContext, packing


def context_of(folder, text: str) -> BuildContext:
    return BuildContext(folder, "Dockerfile", b"FROM scratch\n", dockerignore.read(text), outside=False)


@pytest.fixture
def folder(tmp_path):
    for number in range(300):
        place = tmp_path / f"d{number % 10}" / f"f{number}"
        place.parent.mkdir(exist_ok=True)
        place.write_text("x")
    return tmp_path


async def packed(context: BuildContext) -> int:
    async with packing(context) as parcel:
        return sum([len(piece) async for piece in parcel.pieces()])


@pytest.mark.parametrize(
    ("pattern", "takes_long"), [("**/a*/", True), ("*/", True), ("one\ntwo\n", False), ("", False)]
)
async def test_files_that_take_long_to_compare_with_all_patterns_are_refused(
    folder, monkeypatch, pattern, takes_long
):
    monkeypatch.setattr(contexts, "MAX_MATCHING_STEPS", 5_000)
    text = f"{pattern * 100}b" if takes_long else pattern
    if takes_long:
        with pytest.raises(BuildError, match=r"Shorten \.dockerignore"):
            await packed(context_of(folder, text))
    else:
        assert await packed(context_of(folder, text)) > 300 * 512


async def test_no_further_file_is_compared_when_the_build_has_ended(folder):
    compared = []

    class Counted(dockerignore.Ignore, frozen=True):
        def __call__(self, path):
            compared.append(path)
            return True

    context = BuildContext(folder, "Dockerfile", b"", Counted(), outside=False)
    async with packing(context) as parcel:
        parcel.leave()
    await asyncio.sleep(0)
    assert len(compared) < 5
    await packed(context)  # the control: each folder is compared
    assert len(compared) >= 10


@pytest.mark.timeout(30)
def test_consecutive_stars_in_a_pattern_count_as_one():
    """The limit of time is the negative control: each path takes seconds otherwise."""
    slow = dockerignore.read("\n".join("**/" * 60 + f"z{number}" for number in range(1000)))
    for number in range(10):
        assert not slow(PurePosixPath("/".join(["a"] * 30), str(number)))
    assert slow(PurePosixPath("a/b/z7"))
    assert slow(PurePosixPath("z7"))
    assert dockerignore.read("a/**/**/b")(PurePosixPath("a/b"))
    assert not dockerignore.read("a/**/**/b")(PurePosixPath("c/a/b"))
