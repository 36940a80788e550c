"""Reads the input variables of a Terraform module, and files with their values, from a repository."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from msgspec.structs import asdict

from windlass.base.errors import Invalid
from windlass.base.file_names import file_names, read_beginning
from windlass.control.context.call import Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.services.repository_files import aside, file_inside, look_into
from windlass.terraform.families.terraform_files import (
    MAX_PATHS,
    TerraformVariableDefinition,
    TerraformVariablesQuestion,
    ValuesFile,
    ValuesFilesQuestion,
    check_mode,
)
from windlass.terraform.hcl import (
    HclError,
    input_variables,
    is_module_file,
    is_values_file,
    sensitive_variables,
    variable_values,
)

MAX_FILE_BYTES: Final = 256 * 1024
MAX_REQUEST_BYTES: Final = 1024 * 1024
"""Maximum bytes that are read for one request."""
_REPOSITORY_FIELD: Final = "git_repository"
_ROOT_PATH_FIELD: Final = f"{_REPOSITORY_FIELD}.root_path"


@reads("organization.parseTerraformVariables")
async def list_variables(ctx: Context, call: Call) -> Reply:
    repository = call.sent(TerraformVariablesQuestion).git_repository
    variables = await look_into(
        ctx, call, repository, _REPOSITORY_FIELD, "input variables", aside(_find_variables)
    )
    return Reply(results([encode(variable) for variable in variables]))


@reads("organization.listValuesFiles")
async def list_values_files(ctx: Context, call: Call) -> Reply:
    question = call.sent(ValuesFilesQuestion)
    check_mode(question.mode)
    paths = question.mode.paths
    purpose = "\0".join(["values of input variables", *paths])
    look = aside(partial(_find_values, paths=paths))
    files = await look_into(ctx, call, question.git_repository, _REPOSITORY_FIELD, purpose, look)
    return Reply(results([encode(file) for file in files]))


def _find_variables(folder: Path) -> list[TerraformVariableDefinition]:
    files = _ModuleReader(folder).files_of_module()
    try:
        variables = input_variables(files)
    except HclError as error:
        raise _unreadable(_ROOT_PATH_FIELD, "", error) from error
    return [TerraformVariableDefinition(**asdict(variable)) for variable in variables]


def _find_values(folder: Path, paths: Sequence[str]) -> list[ValuesFile]:
    reader = _ModuleReader(folder)
    if paths:
        named = [(f"mode.paths[{index}]", path.strip("/")) for index, path in enumerate(paths)]
    else:
        named = [(_ROOT_PATH_FIELD, path) for path in _values_files(folder)]
    return [reader.values(path, field) for field, path in named]


def _values_files(folder: Path) -> list[str]:
    paths = [path for path in file_names(folder) if is_values_file(path)]
    if len(paths) > MAX_PATHS:
        raise Invalid(
            f"mode: send the type SpecificPaths, and paths: there are {len(paths)} files with values, and at "
            f"most {MAX_PATHS} are read"
        )
    return paths


class _ModuleReader:
    """Reads files of a module, up to a total size."""

    def __init__(self, root: Path) -> None:
        self._top = root
        self._left = MAX_REQUEST_BYTES
        self._sensitive: dict[str, frozenset[str]] = {}
        """The names of sensitive variables in each folder."""

    def files_of_module(self, folder: str = "") -> dict[str, bytes]:
        """Returns the files of the module in a folder. A file may be a link to another folder of the
        repository. Links that lead out of the repository were not fetched."""
        if not (self._top / folder).is_dir():
            raise Invalid(f"{_ROOT_PATH_FIELD}: there is no such folder in the repository")
        with os.scandir(self._top / folder) as scan:
            names = sorted(
                entry.name
                for entry in scan
                if is_module_file(entry.name) and entry.name.isprintable() and not entry.is_dir()
            )
        return {name: self._read_linked(folder, name) for name in names}

    def values(self, path: str, field: str) -> ValuesFile:
        """Returns the values in a file. The values of variables that a module in the same folder or above
        declares as sensitive are left out."""
        folder, _, name = path.rpartition("/")
        content = self._read(self._top / file_inside(self._top, path, field), path, field)
        try:
            values = variable_values(name, content)
        except HclError as error:
            raise _unreadable(field, folder, error) from error
        sensitive = self._sensitive_around(folder)
        return ValuesFile(
            source=path,
            variables={key: value for key, value in values.items() if key not in sensitive},
            sensitive=sorted(values.keys() & sensitive),
        )

    def _sensitive_around(self, folder: str) -> frozenset[str]:
        names = folder.split("/") if folder else []
        folders = ("/".join(names[:count]) for count in range(len(names) + 1))
        return frozenset().union(*map(self._sensitive_in, folders))

    def _sensitive_in(self, folder: str) -> frozenset[str]:
        if folder not in self._sensitive:
            try:
                self._sensitive[folder] = sensitive_variables(self.files_of_module(folder))
            except HclError as error:
                raise _unreadable(_ROOT_PATH_FIELD, folder, error) from error
        return self._sensitive[folder]

    def _read_linked(self, folder: str, name: str) -> bytes:
        try:
            file = (self._top / folder / name).resolve(strict=True)
        except (OSError, RuntimeError) as error:
            raise Invalid(f"{_ROOT_PATH_FIELD}: {name} is a link that leads nowhere") from error
        return self._read(file, name, _ROOT_PATH_FIELD)

    def _read(self, file: Path, shown: str, field: str) -> bytes:
        content = read_beginning(file.parent, file.name, MAX_FILE_BYTES + 1)
        self._left -= len(content)
        if len(content) > MAX_FILE_BYTES or self._left < 0:
            most = f"{MAX_FILE_BYTES // 1024} KiB of a file, and {MAX_REQUEST_BYTES // 1024} KiB in all"
            raise Invalid(f"{field}: {shown} is too large, or all files together are: Windlass reads {most}")
        return content


def _unreadable(field: str, folder: str, error: HclError) -> Invalid:
    place = f"in the folder {folder}, " if folder else ""
    return Invalid(f"{field}: a file cannot be read: {place}{error}")
