"""Input variables of a module, and files with their values, over HTTP: read before a service is made."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.repositories import Repository
from tests.world import Answer, World, make_world
from windlass.control.workloads.work_folders import DETECTION_PREFIX
from windlass.sources.git import Git
from windlass.terraform.families.terraform_files import MAX_PATHS
from windlass.terraform.module_files import MAX_FILE_BYTES, MAX_REQUEST_BYTES

VARIABLES = """\
variable "region" {
  type        = string
  description = "Where it is made"
}
variable "zones" {
  default  = ["a", "b"]
  nullable = false
}
variable "api_key" {
  default   = "hush-hush"
  sensitive = true
}
"""
VALUES = 'region = "paris"\napi_key = "hush-hush"\nzones = ["c"]\n'
AUTO = {"type": "AutoDiscover"}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "infra")
    files: dict[str, str | bytes] = {
        "bucket/variables.tf": VARIABLES,
        "bucket/main.tf": 'resource "x" "y" {\n  name = "${var.region}-${"a"}"\n}\n',
        "bucket/more.tf.json": '{"variable": {"size": {"default": 3}}}',
        "bucket/terraform.tfvars": VALUES,
        "bucket/env/prod.tfvars.json": '{"region": "rome", "api_key": "hush-hush", "size": 4}',
        "README.md": "Buckets",
        "other/lone.tfvars": 'a = "1"',
    }
    made.put(files).commit()
    return made


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    git = Git(allow_local=True, outbound_allow=(), home=tmp_path / "git")
    async with make_world(git=git) as made:
        yield made


def asked(repository: Repository, root_path: str = "/bucket", **fields: Any) -> dict[str, Any]:
    return {"git_repository": {"url": repository.url, "root_path": root_path}, **fields}


async def variables(world: World, body: Any, **options: Any) -> Answer:
    return await world.post(f"/organization/{world.org}/parseTerraformVariablesFromGitRepo", body, **options)


async def values(world: World, body: Any, **options: Any) -> Answer:
    return await world.post(f"/organization/{world.org}/listTfVarsFilesFromGitRepo", body, **options)


BOTH: tuple[tuple[Any, dict[str, Any]], ...] = ((variables, {}), (values, {"mode": AUTO}))


async def test_the_variables_of_a_module_are_listed_with_their_defaults(world: World, repository: Repository):
    answer = await variables(world, asked(repository))
    assert answer.status == 200, answer
    found = {variable.pop("key"): variable for variable in answer["results"]}
    plain = {"sensitive": False, "nullable": True, "default": None, "description": None}
    assert found == {
        "size": plain | {"source": "more.tf.json", "default": "3"},
        "region": plain | {"source": "variables.tf", "description": "Where it is made"},
        "zones": plain | {"source": "variables.tf", "default": '["a","b"]', "nullable": False},
        "api_key": plain | {"source": "variables.tf", "sensitive": True},
    }


async def test_terraform_values_files_below_the_root_folder_are_listed(world: World, repository: Repository):
    answer = await values(world, asked(repository, mode=AUTO))
    assert answer.status == 200, answer
    assert answer["results"] == [
        {
            "source": "terraform.tfvars",
            "variables": {"region": "paris", "zones": '["c"]'},
            "sensitive": ["api_key"],
        },
        {
            "source": "env/prod.tfvars.json",
            "variables": {"region": "rome", "size": "4"},
            "sensitive": ["api_key"],
        },
    ]


async def test_with_specific_paths_only_the_named_values_files_are_read(world: World, repository: Repository):
    mode = {"type": "SpecificPaths", "paths": ["/env/prod.tfvars.json"]}
    answer = await values(world, asked(repository, mode=mode))
    assert [file["source"] for file in answer["results"]] == ["env/prod.tfvars.json"]


async def test_a_sensitive_value_is_in_no_answer(world: World, repository: Repository):
    for ask, more in BOTH:
        answer = await ask(world, asked(repository, **more))
        assert answer.status == 200
        assert b"hush" not in answer.body


async def test_the_error_about_an_unreadable_module_shows_no_values(world: World, repository: Repository):
    repository.put({"bucket/broken.tf": 'variable "other" {\n  default = "hush-hush"\n'}).commit()
    for ask, more in BOTH:
        answer = await ask(world, asked(repository, **more))
        assert (answer.status, "broken.tf, line 3" in answer.message) == (400, True)
        assert "hush" not in answer.message


@pytest.mark.parametrize(
    ("mode", "field"),
    [
        ({"type": "SpecificPaths"}, "mode.paths"),
        ({"type": "SpecificPaths", "paths": ["none.tfvars"]}, "mode.paths[0]"),
        ({"type": "SpecificPaths", "paths": ["terraform.tfvars", "../other/lone.tfvars"]}, "mode.paths[1]"),
        ({"type": "SpecificPaths", "paths": ["/"]}, "mode.paths[0]"),
        ({"type": "SpecificPaths", "paths": ["env"]}, "mode.paths[0]"),
        ({"type": "SpecificPaths", "paths": ["main.tf"]}, "mode.paths[0]"),
        ({"type": "SpecificPaths", "paths": ["a.tfvars"] * (MAX_PATHS + 1)}, "mode.paths"),
        ({"type": "AutoDiscover", "paths": ["terraform.tfvars"]}, "mode.paths"),
        ({"type": "All"}, "mode.type"),
        ({}, "mode.type"),
        ([], "mode"),
    ],
)
async def test_a_wrong_mode_is_refused_with_its_field(world: World, repository: Repository, mode, field):
    answer = await values(world, asked(repository, mode=mode))
    assert (answer.status, answer.message.partition(":")[0]) == (400, field)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('variable "a" {\n  default = 60 * 60\n}', "bad.tf, line 2: there is more than a plain value"),
        ('variable "a" {\n  default = f("x")\n}', "bad.tf, line 2: the value of default is no plain value"),
        ('variable "a" {\n', "bad.tf, line 2: a } is missing"),
        ('variable "region" {}', "variables.tf: the variable region is already declared in bad.tf"),
        (b"variable \xff", "bad.tf: it is no text in UTF-8"),
        (b"variable \0", "bad.tf: it is no text"),
        ('variable "a" { default = ' + "[" * 100_000 + "}", "bad.tf, line 1: the value of default is nested"),
        (
            'variable "a" { default = ' + '"${' * 10_000 + "}",
            "bad.tf, line 1: templates are nested too deeply",
        ),
        ("#" * (MAX_FILE_BYTES + 1), "bad.tf is too large"),
    ],
)
async def test_an_invalid_terraform_file_is_refused_with_its_line(
    world: World, repository: Repository, text, reason
):
    repository.put({"bucket/bad.tf": text}).commit()
    answer = await variables(world, asked(repository))
    assert (answer.status, answer.message.partition(":")[0]) == (400, "git_repository.root_path")
    assert reason in answer.message


async def test_terraform_files_that_are_too_large_together_are_refused(world: World, repository: Repository):
    count = MAX_REQUEST_BYTES // MAX_FILE_BYTES + 1
    repository.put({f"bucket/{number}.tf": "#" * MAX_FILE_BYTES for number in range(count)}).commit()
    answer = await variables(world, asked(repository))
    assert (answer.status, "too large" in answer.message) == (400, True)


async def test_more_files_than_are_read_are_refused(world: World, repository: Repository):
    repository.put({f"many/{number}.tfvars": "a = 1" for number in range(MAX_PATHS + 1)}).commit()
    answer = await values(world, asked(repository, "/many", mode=AUTO))
    assert (answer.status, answer.message.partition(":")[0]) == (400, "mode")
    assert f"there are {MAX_PATHS + 1} files" in answer.message


async def test_a_symlink_inside_the_repository_is_followed_in_a_terraform_module(
    world: World, repository: Repository
):
    repository.put({"common/shared.tf": 'variable "shared" {}'})
    repository.link("bucket/shared.tf", "../common/shared.tf")
    repository.link("lost/gone.tf", "nowhere.tf").commit()
    answer = await variables(world, asked(repository))
    assert "shared" in {variable["key"] for variable in answer["results"]}
    dangling = await variables(world, asked(repository, "/lost"))
    assert (dangling.status, "gone.tf is a link that leads nowhere" in dangling.message) == (400, True)


async def test_a_link_out_of_the_repository_is_not_followed(world: World, repository: Repository):
    repository.link("bucket/outside.tf", "/etc/passwd").commit()
    for ask, more in BOTH:
        answer = await ask(world, asked(repository, **more))
        assert (answer.status, "it leads out of the repository" in answer.message) == (409, True)


async def test_a_folder_without_a_module_has_no_variables(world: World, repository: Repository):
    answer = await variables(world, asked(repository, "/"))
    assert (answer.status, answer["results"]) == (200, [])


async def test_a_repository_that_cannot_be_read_is_a_conflict_with_its_reason(
    world: World, repository: Repository
):
    for ask, more in BOTH:
        answer = await ask(world, asked(repository, "/none", **more))
        assert (answer.status, "there is no folder none" in answer.message) == (409, True)


async def test_a_git_token_of_another_organization_is_not_used(world: World, repository: Repository):
    other, admin = await world.organization()
    body = {"name": "g", "type": "GITHUB", "token": "s3cret"}
    token = await world.made(f"/organization/{other}/gitToken", body, token=admin)
    for ask, more in BOTH:
        question = asked(repository, **more)
        question["git_repository"]["git_token_id"] = token
        answer = await ask(world, question)
        assert (answer.status, answer.message.partition(":")[0]) == (400, "git_repository.git_token_id")


async def test_reading_module_files_needs_the_scope_write(world: World, repository: Repository):
    read, write = await world.new_token("Read"), await world.new_token("Write")
    _, foreign = await world.organization()
    for ask, more in BOTH:
        question = asked(repository, **more)
        statuses = [(await ask(world, question, token=token)).status for token in (read, foreign, write)]
        assert statuses == [403, 404, 200]


async def test_reading_a_terraform_module_leaves_no_files_and_no_events(world: World, repository: Repository):
    before = (await world.get(f"/organization/{world.org}/events")).json
    await variables(world, asked(repository))
    assert (await world.get(f"/organization/{world.org}/events")).json == before
    assert [*world.installation.ctx.work.glob(f"{DETECTION_PREFIX}*")] == []
