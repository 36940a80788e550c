"""A native build has the commands of all processes; settings of the application choose among them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from windlass.builders.builder import BuildSettings

PROCFILE = "release: python migrate.py\nweb: python main.py\nworker: python work.py\n"
SCRIPTS = {"main.py": "print('web')", "work.py": "print('work')", "migrate.py": "print('migrated')"}


async def test_every_process_of_a_procfile_can_be_run_and_so_can_its_release(site):
    artifact = await site.build({"Procfile": PROCFILE, **SCRIPTS})
    assert artifact.processes.keys() == {"web", "worker"}
    assert artifact.processes["web"] == artifact.command
    assert site.run(artifact) == "web"
    assert site.run(replace(artifact, command=artifact.processes["worker"])) == "work"
    assert site.run(replace(artifact, command=artifact.release)) == "migrated"
    assert "The process worker of the Procfile runs in an application of its own" in site.log()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("Procfile", "a: python main.py\nb: python work.py\n"),
        ("fly.toml", "[processes]\na = 'python main.py'\nb = 'python work.py'\n"),
    ],
)
async def test_without_a_web_process_the_artifact_has_no_start_command(site, file, text):
    artifact = await site.build({file: text, **SCRIPTS})
    assert artifact.command == ()
    assert artifact.processes.keys() == {"a", "b"}


async def test_a_process_whose_program_is_missing_cannot_be_chosen(site):
    artifact = await site.build({"Procfile": "web: python main.py\nworker: no-such-program\n", **SCRIPTS})
    assert artifact.processes.keys() == {"web"}
    assert "The process worker cannot be chosen: " in site.log()


async def test_a_repository_without_a_start_command_is_built_if_a_setting_has_one(site):
    assert "no-such-program" in await site.refused({"Procfile": "web: no-such-program"})
    settings = BuildSettings(has_command=True)
    artifact = await site.build({"notes.txt": "x"}, settings=settings)
    assert (artifact.command, artifact.processes) == ((), {})
    unfit = await site.build({"Procfile": "web: no-such-program"}, settings=settings)
    assert unfit.command == ()


async def test_a_missing_dockerfile_that_the_settings_name_is_refused(site):
    said = await site.refused(SCRIPTS, settings=BuildSettings(builder="DOCKERFILE"))
    assert said.startswith("builder: add a Dockerfile, or set builder to AUTO")


async def test_the_builder_setting_chooses_between_dockerfile_and_recipe(site):
    dockerfile = 'FROM python\nCOPY . /app\nWORKDIR /app\nCMD ["python", "work.py"]\n'
    files = {"Dockerfile": dockerfile, "Procfile": "web: python main.py", **SCRIPTS}
    results = {
        choice: site.run(await site.build(files, settings=BuildSettings(builder=choice)))
        for choice in ("AUTO", "DOCKERFILE", "RECIPE")
    }
    assert results == {"AUTO": "web", "DOCKERFILE": "work", "RECIPE": "web"}
    del files["Procfile"]
    assert site.run(await site.build(files)) == "work"
    assert site.run(await site.build(files, settings=BuildSettings(builder="RECIPE"))) == "web"


async def test_a_folder_of_no_known_language_is_built_by_the_commands_that_are_set(site):
    broken = BuildSettings(has_command=True, build_command="false")
    assert "false" in await site.refused({"notes.txt": "x"}, settings=broken)
    settings = BuildSettings(
        has_command=True,
        install_command="echo one > a.txt",
        build_command="cat a.txt > b.txt; echo $NAME >> b.txt",
    )
    artifact = await site.build({"notes.txt": "x"}, settings=settings, arguments={"NAME": "two"})
    assert site.run(replace(artifact, command=("/bin/cat", "b.txt"))) == "one\ntwo"
    assert "start_command" not in site.log()


async def test_the_build_log_says_that_system_packages_are_those_of_the_machine(site):
    await site.build({"Procfile": "web: true"}, settings=BuildSettings(system_packages=("ffmpeg", "libpq5")))
    assert "apt-get install ffmpeg libpq5" in site.log()
    await site.build({"Procfile": "web: true"})
    assert "system_packages" not in site.log()
