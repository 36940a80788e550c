"""The Node that packages ask for, where the repository names none."""

from __future__ import annotations

import json

import pytest

from windlass.base.isolation.isolation import Isolation
from windlass.builders.builder import BuildError
from windlass.process.builds import NativeBuilder, node_runtime

pytestmark = pytest.mark.slow

ENGINES = {"left-pad": ">=18", "right-pad": "^22.19.0 || ^24.11.0"}
INSTALL = """#!/bin/sh
[ "$1" = run ] && exit 0
echo "installed by $(basename "$0") with $(node --version)"
for name in "left-pad:{left-pad}" "right-pad:{right-pad}"; do
  mkdir -p "node_modules/${{name%%:*}}"
  echo '{{"engines": {{"node": "'"${{name#*:}}"'"}}}}' > "node_modules/${{name%%:*}}/package.json"
done
"""
STRICT = """#!/bin/sh
[ "$1" = --version ] && echo 1.22.22 && exit
if [ "$(node --version)" = v20.1.0 ]; then
  what='The engine "node" is incompatible with this module. Expected version ">=22". Got "20.1.0"'
  echo "error right-pad@4.5.2: $what"
  exit 1
fi
"""


def program(folder, name, text):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


@pytest.fixture
def machine(site, tmp_path, monkeypatch):
    """A machine with Node 20, where Node 22 and 24 can be fetched."""
    folder = tmp_path / "programs"
    program(folder, "node", "#!/bin/sh\necho v20.1.0\n")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    async def make_node(major, tools, into):
        program(into / "node" / "bin", "node", f"#!/bin/sh\necho v{major}.20.0\n")
        (into / "node" / "bin" / "npm").symlink_to(folder / "npm")

    monkeypatch.setattr(node_runtime, "_make_node", make_node)
    site.builder = NativeBuilder(site.kept, {}, Isolation("off", site.kept))
    return folder


def files(**more):
    package = {"name": "shop", "dependencies": dict.fromkeys(ENGINES, "latest"), **more}
    return {"package.json": json.dumps(package), "server.js": ""}


def installs(site):
    return [line for line in site.said if line.startswith("installed by ")]


@pytest.mark.parametrize("more", [{}, {"scripts": {"build": "node build.js"}}, {"workspaces": ["parts/*"]}])
async def test_packages_that_need_another_node_get_it_and_later_builds_begin_with_it(site, machine, more):
    program(machine, "npm", INSTALL.format_map(ENGINES))
    artifact = await site.build(files(**more))
    assert installs(site) == ["installed by npm with v20.1.0", "installed by npm with v24.20.0"]
    assert "Installing again with Node 24: the package right-pad asks for it." in site.said
    assert (site.folder_of(artifact, "node") / "bin" / "node").read_text().endswith("v24.20.0\n")
    await site.build({**files(**more), "changed.js": ""})
    assert "v20.1.0" not in site.log()


@pytest.mark.parametrize(
    ("engines", "named"),
    [
        ({**ENGINES, "right-pad": "^20.1.0 || >=22"}, {}),
        ({**ENGINES, "right-pad": "^22", "left-pad": "<21"}, {}),
        ({**ENGINES, "right-pad": "^16"}, {}),
        (ENGINES, {"engines": {"node": "20"}}),
    ],
    ids=["it runs on this one", "packages disagree", "none that can be had", "the repository names one"],
)
async def test_the_installed_node_is_used_if_no_other_version_suits_better(site, machine, engines, named):
    program(machine, "npm", INSTALL.format_map(engines))
    await site.build(files(**named))
    assert installs(site) == ["installed by npm with v20.1.0"]


async def test_a_package_manager_that_refuses_the_current_node_runs_with_the_one_it_names(site, machine):
    program(machine, "npm", "#!/bin/sh\n")
    program(machine, "yarn", STRICT + INSTALL.format_map(ENGINES).removeprefix("#!/bin/sh\n"))
    await site.build({**files(), "yarn.lock": "# yarn lockfile v1\n"})
    assert installs(site) == ["installed by yarn with v24.20.0"]


@pytest.mark.parametrize("content", ["{", "[]", '{"engines": ["node >= 99"]}', '{"engines": {"node": 99}}'])
async def test_a_package_manifest_without_a_node_requirement_requires_none(site, machine, content):
    install = "#!/bin/sh\necho installed by npm\nmkdir -p node_modules/right-pad\n"
    program(machine, "npm", f"{install}echo '{content}' > node_modules/right-pad/package.json\n")
    await site.build(files())
    assert len(installs(site)) == 1


async def test_a_failure_without_the_required_node_begins_with_installing_it(site, machine):
    site.builder = NativeBuilder(site.kept, {}, Isolation("off", site.kept), fetches=False)
    program(machine, "npm", INSTALL.format_map(ENGINES).replace("exit 0", "exit 1"))
    with pytest.raises(BuildError) as failed:
        await site.build(files(scripts={"build": "node build.js"}))
    wish = (
        "Install Node 24 with npm on the machine that runs Windlass: the package right-pad asks for Node 24"
    )
    assert str(failed.value).startswith(wish)
