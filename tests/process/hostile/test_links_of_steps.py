"""Steps of a build that put links in the way of what the builder reads and writes as itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.process.builds.native_sites import Site
from windlass.builders.builder import BuildError, BuildSettings
from windlass.builders.node_managers import manager_of
from windlass.builders.node_packages import package
from windlass.detect import languages
from windlass.process.builds import node
from windlass.process.builds.kept_folders import KeptFolders
from windlass.process.builds.node_steps import KEPT_CACHES

RESULTS = [
    pytest.param(language.toolchain, pattern, id=f"{language.name}-{pattern}")
    for language in languages()
    if language.toolchain
    for pattern in language.toolchain.results
]
BELOW = sorted(
    {
        name
        for names in (
            KEPT_CACHES,
            *(language.toolchain.kept for language in languages() if language.toolchain),
        )
        for name in names
        if "/" in name
    }
)
"""Kept folders to which another folder leads."""


def ways(path: str) -> list[str]:
    """Returns the folders on the way to a path, and the path."""
    parts = path.split("/")
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def contents(top: Path) -> set[str]:
    """Returns all texts below a folder, without following links."""
    return {
        (Path(folder) / name).read_text()
        for folder, _, names in os.walk(top)
        for name in names
        if not (Path(folder) / name).is_symlink()
    }


class Build:
    """A build whose steps have written a result, and folders of others."""

    def __init__(self, top: Path, name: str, results: tuple[str, ...] = ()) -> None:
        self.secrets, self.app, self.kept = top / "secrets", top / "app", top / "kept"
        for folder in (self.secrets, self.app, self.kept):
            folder.mkdir(parents=True)
        self.place = self.kept / name.replace("/", "%")
        self.folders = KeptFolders(self.kept, self.app, (name,), results)

    def write(self, path: str, text: str) -> None:
        (self.app / path).parent.mkdir(parents=True, exist_ok=True)
        (self.app / path).write_text(text)


def file_of(pattern: str) -> str:
    """Returns a file that a pattern means."""
    return f"{pattern}file" if pattern.endswith("/") else pattern.replace("*", "file")


@pytest.mark.parametrize(("toolchain", "pattern"), RESULTS)
def test_build_results_are_copied_without_following_symlinks(toolchain, pattern, tmp_path):
    (name,) = (name for name in toolchain.kept if pattern.rstrip("/").startswith(name))
    path = file_of(pattern)
    plain = Build(tmp_path / "plain", name, toolchain.results)
    plain.write(path, "result")
    plain.folders.take_out()
    plain.folders.copy_results()
    assert (plain.app / path).read_text() == "result"

    for number, way in enumerate(ways(path)):
        build = Build(tmp_path / str(number), name, toolchain.results)
        inner = path.removeprefix(way).lstrip("/") or "secret"
        (build.secrets / inner).parent.mkdir(parents=True, exist_ok=True)
        (build.secrets / inner).write_text("secret")
        (build.app / way).parent.mkdir(parents=True, exist_ok=True)
        (build.app / way).symlink_to(build.secrets if inner != "secret" else build.secrets / inner)
        build.folders.take_out()
        try:
            build.folders.copy_results()
        except BuildError as error:
            assert "put something else there" in str(error)  # noqa: PT017 (a link may also be left alone)
        assert contents(build.app) == set(), way


@pytest.mark.parametrize("name", BELOW)
def test_a_cache_folder_is_not_moved_to_the_target_of_a_symlink(name, tmp_path):
    plain = Build(tmp_path / "plain", name)
    plain.place.mkdir()
    plain.folders.put_in()
    assert (plain.app / name).is_dir()

    for number, way in enumerate(ways(name)[:-1]):
        build = Build(tmp_path / str(number), name, (f"{name}/",))
        (build.app / way).parent.mkdir(parents=True, exist_ok=True)
        (build.app / way).symlink_to(build.secrets)
        build.place.mkdir()
        (build.place / "file").write_text("written")
        build.folders.put_in()
        with pytest.raises(BuildError, match="put something else there"):
            build.folders.copy_results()
        assert contents(build.secrets) == set()


def test_a_link_in_the_place_of_a_kept_folder_is_not_read(tmp_path):
    build = Build(tmp_path / "build", "target", ("target/release/*",))
    (build.secrets / "release").mkdir()
    (build.secrets / "release" / "key").write_text("secret")
    build.place.symlink_to(build.secrets)
    build.folders.put_in()
    build.folders.take_out()
    build.folders.copy_results()
    assert contents(build.app) == set()


def test_links_that_lead_to_each_other_are_no_kept_folder(tmp_path):
    build = Build(tmp_path / "build", "deep/target", ("deep/target/release/*",))
    (build.app / "deep").symlink_to("deep")
    build.folders.take_out()
    with pytest.raises(BuildError, match="Make the build write to a folder deep/target"):
        build.folders.copy_results()


@pytest.mark.parametrize("way", ["package.json", "package-lock.json", ".npmrc", "patches", ".yarn", "lib"])
async def test_dependencies_from_a_path_outside_the_application_are_refused(way, tmp_path):
    app, secrets = tmp_path / "app", tmp_path / "secrets"
    for folder in (app / "lib", app / "patches", app / ".yarn" / "releases", secrets):
        folder.mkdir(parents=True)
    (app / "package.json").write_text('{"dependencies": {"lib": "file:./lib"}}')
    (app / "lib" / "package.json").write_text("{}")
    for name in ("package-lock.json", ".npmrc"):
        (app / name).write_text("{}")
    root = package(app)
    assert root
    needed = node.dependencies_of(root, root, manager_of(app, ""))
    assert any(app / way in (path, path.parent) for path in (*needed.files, *needed.local))

    (app / way).rename(secrets / way)
    (app / way).symlink_to(secrets / way)
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(BuildError, match="lead out of the application"):
        await node.install_apart(None, needed, into, {})  # type: ignore[arg-type]


@pytest.mark.slow
async def test_no_further_step_runs_after_a_step_replaced_the_application_folder_by_a_symlink(tmp_path):
    files = {"shop/requirements.txt": "", "shop/main.py": "", "shop/Procfile": "web: python main.py"}
    for swap, is_refused in (("cd .. && mv shop was && ln -s was shop", True), ("true", False)):
        site = Site(tmp_path / str(is_refused))
        settings = BuildSettings(install_command=swap, build_command="echo next")
        if is_refused:
            assert "link in the place of a folder" in await site.refused(
                files, root="shop", settings=settings
            )
        else:
            await site.build(files, root="shop", settings=settings)
        assert ("next" in site.said) is not is_refused
