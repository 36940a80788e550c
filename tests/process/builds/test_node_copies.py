"""Builds of a Node application share one copy of its packages as long as none changes it."""

from __future__ import annotations

import json

import pytest

from windlass.base.isolation.isolation import Isolation
from windlass.process.builds import NativeBuilder

NPM = """#!/bin/sh
if [ "$1" = run ]; then
  [ "$2" != build ] || sh build.sh
  exit
fi
echo "installed by npm"
mkdir -p node_modules/left-pad/lib node_modules/right-pad node_modules/.bin
echo one > node_modules/left-pad/lib/index.js
echo two > node_modules/right-pad/index.js
ln -s ../left-pad/lib/index.js node_modules/.bin/left-pad
"""


@pytest.fixture(autouse=True)
def machine(site, tmp_path, monkeypatch):
    folder = tmp_path / "programs"
    folder.mkdir()
    for name, text in (("npm", NPM), ("node", "#!/bin/sh\necho v20.1.0\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    site.builder = NativeBuilder(site.kept, {}, Isolation("off", site.kept))


def files(build, **more):
    package = {
        "name": "shop",
        "dependencies": {"left-pad": "1"},
        "scripts": {"build": "x", "start": "node a"},
    }
    return {"package.json": json.dumps(package | more), "build.sh": build, "server.js": "", "a": ""}


def copies(site):
    return list(site.kept.glob("cache/.services/*/*/*/kept/packages"))


def inodes(site):
    return [(copy / "left-pad" / "lib" / "index.js").stat().st_ino for copy in copies(site)]


def text_of(site, artifact, path):
    return (site.folder_of(artifact, "node_modules") / path).read_text()


async def test_builds_that_modify_no_package_share_one_node_modules_folder(site):
    artifact = await site.build(files("mkdir -p node_modules/.cache && echo x > node_modules/.cache/x"))
    before = inodes(site)
    assert len(before) == 1
    again = await site.build(files("cat node_modules/left-pad/lib/index.js > made"))
    assert inodes(site) == before
    assert "installed by npm" not in site.log()
    for made in (artifact, again):
        assert site.folder_of(made, "node_modules").resolve().parent.parent.name == ".deps"
        assert text_of(site, made, "left-pad/lib/index.js") == "one\n"
    assert (site.folder_of(again, "app") / "made").read_text() == "one\n"


@pytest.mark.parametrize(
    ("change", "path", "text"),
    [
        ("echo mine > node_modules/left-pad/lib/index.js", "left-pad/lib/index.js", "mine\n"),
        ("echo mine > node_modules/left-pad/lib/more.js", "left-pad/lib/more.js", "mine\n"),
        ("echo mine > node_modules/mine.js", "mine.js", "mine\n"),
        ("mv node_modules/right-pad node_modules/other", "other/index.js", "two\n"),
        ("touch -d 2001-01-01 node_modules/left-pad/lib/index.js", "left-pad/lib/index.js", "one\n"),
        ("rm -r node_modules/right-pad", "left-pad/lib/index.js", "one\n"),
        ("rm node_modules/left-pad/lib/index.js && echo > node_modules/left-pad/a", "left-pad/a", "\n"),
    ],
)
async def test_a_build_that_modifies_a_package_keeps_its_own_copy_of_node_modules(site, change, path, text):
    artifact = await site.build(files(change))
    assert text_of(site, artifact, path) == text
    assert not site.folder_of(artifact, "node_modules").is_symlink()
    assert copies(site) == []
    clean = await site.build(files("true"))
    assert text_of(site, clean, "left-pad/lib/index.js") == "one\n"
    assert not (site.folder_of(clean, "node_modules") / "mine.js").exists()
    assert (site.folder_of(clean, "node_modules") / "right-pad").exists()


async def test_packages_of_another_lock_are_copied_again(site):
    await site.build(files("true"))
    before = inodes(site)
    await site.build(files("true", dependencies={"left-pad": "2"}))
    assert "installed by npm" in site.log()
    assert len(inodes(site)) == 1
    assert inodes(site) != before


@pytest.mark.parametrize("more", [{"scripts": {"build": "x", "postinstall": "true"}}, {"workspaces": ["a"]}])
async def test_packages_that_scripts_or_a_workspace_may_change_are_not_kept(site, more):
    await site.build(files("true", **more))
    assert copies(site) == []


async def test_a_symlink_in_place_of_the_shared_node_modules_is_not_followed(site, tmp_path):
    await site.build(files("true"))
    (copy,) = copies(site)
    outside = tmp_path / "outside"
    copy.rename(outside)
    copy.symlink_to(outside)
    artifact = await site.build(files("true"))
    assert text_of(site, artifact, "left-pad/lib/index.js") == "one\n"
    assert not copies(site)[0].is_symlink()
    assert any(outside.iterdir())
