"""An attacker's repositories and settings, from which Windlass itself writes the Dockerfile."""

from __future__ import annotations

import json
import re

import pytest

from windlass.builders.builder import BuildError, BuildSettings, Order
from windlass.builders.dockerfile import read
from windlass.docker.builds.guard import Around, Rewritten, rewritten
from windlass.docker.builds.recipes import choose_dockerfile

ADDRESS = "http://127.0.0.1:8080/secret"
TEXTS = [
    f"x\nADD {ADDRESS} /x",
    f"x\r\nADD {ADDRESS} /x",
    f"x \\\nADD {ADDRESS} /x",
    f'x"]\nADD {ADDRESS} /x\nRUN ["x',
    f"<<EOF\nADD {ADDRESS} /x\nEOF",
    "x\nUSER root",
    "x\nFROM windlass/other:k1",
    "x\nCOPY --from=windlass/other:k1 /secret /x",
    "--mount=type=secret,id=x cat /run/secrets/x",
    "--mount=type=bind,from=windlass/other:k1,target=/m cp /m/secret /x",
    "--network=host wget http://127.0.0.1/",
    "--security=insecure mount",
]
FIELDS = ["install_command", "build_command", "static_folder", "language_version"]


def written_for(folder, files: dict[str, str], org: str = "acme", **settings) -> Rewritten:
    """Returns what the engine would get."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    order = Order(
        service=f"service-of-{org}",
        org=org,
        name="shop",
        deployment="d1",
        key="k1",
        commit="c" * 40,
        source=folder,
        settings=BuildSettings(**settings),
    )
    around = Around(service=order.service, scope=org, arguments={}, platform={}, heredocs=False)
    return rewritten(choose_dockerfile(order, caches=True).files.text.decode(), around)


def reach_of(made: Rewritten) -> set[str]:
    """Returns the instructions and options by which a build reaches more than its own files."""
    reached: set[str] = set()
    for stage in read(made.text.decode()).stages:
        for instruction in stage.instructions:
            reached |= {instruction.name} & {"ADD", "ONBUILD"}
            reached |= {f"USER {instruction.text}"} if instruction.name == "USER" else set()
            for name, value in instruction.flags:
                if not (name in ("chown", "interval", "timeout", "start-period") or value == "build"):
                    reached.add(re.sub(r",.*", "", f"{name}={value}"))
    return reached


USUAL = {"mount=type=cache", "USER 10001:10001"}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("field", FIELDS)
def test_no_application_setting_adds_instructions_or_images_to_the_dockerfile(tmp_path, field, text):
    files = {"package.json": json.dumps({"dependencies": {"x": "1"}, "scripts": {"start": "node a"}})}
    made = written_for(tmp_path, files, **{field: text})
    assert reach_of(made) <= USUAL
    assert all(re.match(r"node:\d+-bookworm(-slim)?\Z", image) for image in made.images)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("file", ["package.json", "Procfile", "render.yaml", ".nvmrc", "app.json"])
def test_no_repository_file_adds_instructions_or_images_to_the_dockerfile(tmp_path, file, text):
    package = {
        "dependencies": {"x": text},
        "packageManager": f"pnpm@{text}",
        "engines": {"node": text},
        "scripts": {"start": text, "build": text},
        "main": text,
    }
    contents = {
        "package.json": json.dumps(package),
        "Procfile": f"web: {text}",
        "render.yaml": f"services:\n- type: web\n  startCommand: {text}\n  buildCommand: {text}\n",
        ".nvmrc": text,
        "app.json": json.dumps({"healthchecks": {"web": [{"path": text}]}}),
    }
    start = json.dumps({"dependencies": {"y": "1"}, "scripts": {"start": "node a"}})
    made = written_for(tmp_path, {"package.json": start, "a.js": "", file: contents[file]})
    assert reach_of(made) <= USUAL
    assert all(re.match(r"node:\d+-bookworm(-slim)?\Z", image) for image in made.images)


@pytest.mark.parametrize("text", [text for text in TEXTS if "\\" not in text])
def test_without_quoting_the_same_values_would_add_instructions(tmp_path, text):
    """The same values, as a careless writer would put them there."""
    careless = f"FROM node:22-bookworm\nRUN {text}\n"
    around = Around(service="acme", scope="s", arguments={}, platform={}, heredocs=False)
    try:
        assert not reach_of(rewritten(careless, around)) <= USUAL
    except BuildError:
        return  # the guard refuses it


NAMES = ["$PATH.txt", "a b.txt", "*.txt", "--from=x", "../../etc/passwd", "/etc/passwd", "[a].txt"]


@pytest.mark.parametrize("name", NAMES)
def test_a_requirements_file_name_is_never_read_as_a_pattern_or_option_of_copy(tmp_path, name):
    made = written_for(tmp_path, {"requirements.txt": f"flask\n-r {name}\n", "main.py": ""})
    instructions = read(made.text.decode()).stages[0].instructions
    assert [line.text for line in instructions if line.name == "COPY"] == [". ./"]


def test_organizations_share_no_cache_of_a_recipe(tmp_path):
    files = {
        "package.json": json.dumps({"dependencies": {"x": "1"}, "scripts": {"build": "x", "start": "y"}})
    }
    ids = [
        set(re.findall(r"id=([^,\s]+)", written_for(tmp_path, files, org).text.decode()))
        for org in ("acme", "victim")
    ]
    assert ids[0]
    assert not ids[0] & ids[1]


def test_services_of_one_organization_share_no_build_cache_folder(tmp_path):
    files = {
        "package.json": json.dumps({"dependencies": {"x": "1"}, "scripts": {"build": "x", "start": "y"}})
    }
    text = written_for(tmp_path, files).text.decode()
    assert "id=service-of-acme/service-of-acme-" in text
