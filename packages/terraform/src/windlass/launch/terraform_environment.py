"""The environment variables of the Terraform program, and its configuration file with the sources of
providers."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from windlass.launch.launcher import LaunchRefused, Variables

RUN_VARIABLE: Final = "WINDLASS_TERRAFORM"
TOKEN: Final = "WINDLASS_TERRAFORM_TOKEN"  # noqa: S105 (the name of a variable)
STATE_TOKEN: Final = "WINDLASS_TERRAFORM_STATE_TOKEN"  # noqa: S105 (the name of a variable)
MAX_VALUES_BYTES: Final = 128 * 1024 - 256
"""Maximum bytes of the options with input variables. Linux limits the length of one environment variable."""
_LAUNCHER_VARIABLES: Final = (RUN_VARIABLE, TOKEN, STATE_TOKEN)


def program_environment(
    variables: Variables, request: dict[str, Any], data: Path, keeper: str
) -> dict[str, str]:
    """Returns the environment of the Terraform program: the service's variables without the launcher's own
    ones.

    `keeper` is the address of the Windlass that stores the state. It is empty if the module's own backend
    stores the state.
    """
    environment = {name: value for name, value in variables.items() if name not in _LAUNCHER_VARIABLES}
    environment |= {
        "TF_IN_AUTOMATION": "1",
        "TF_INPUT": "0",
        "TF_DATA_DIR": str(data),
        "TF_CLI_CONFIG_FILE": str(_write_config(Path(variables["TMPDIR"]), request)),
        "CHECKPOINT_DISABLE": "1",
        # Passed in a variable because other users can read command lines. The values come after the files, so
        # that they override them.
        "TF_CLI_ARGS_plan": _plan_arguments(variables, request),
    }
    if keeper:
        address = f"{keeper}/state"
        environment |= dict.fromkeys(
            ("TF_HTTP_ADDRESS", "TF_HTTP_LOCK_ADDRESS", "TF_HTTP_UNLOCK_ADDRESS"), address
        )
        environment |= {
            "TF_HTTP_USERNAME": "run",
            "TF_HTTP_PASSWORD": variables[STATE_TOKEN],
            "TF_HTTP_RETRY_MAX": "60",
            "TF_HTTP_RETRY_WAIT_MIN": "1",
            "TF_HTTP_RETRY_WAIT_MAX": "5",
        }
    return environment


def _plan_arguments(variables: Variables, request: dict[str, Any]) -> str:
    joined = shlex.join(_inputs(variables, request))
    if len(joined.encode()) > MAX_VALUES_BYTES:
        raise LaunchRefused(
            "terraform_variables_source.tf_vars: give shorter values, or put them into a file of the "
            "repository and name that in tf_var_file_paths: all values together have at most "
            f"{MAX_VALUES_BYTES} bytes"
        )
    return joined


def _inputs(variables: Variables, request: dict[str, Any]) -> Iterator[str]:
    for path in request["var_files"]:
        yield f"-var-file={path.lstrip('/')}"
    for key in request["vars"]:
        yield f"-var={key}={variables[f'TF_VAR_{key}']}"


def _write_config(folder: Path, request: dict[str, Any]) -> Path:
    """Writes the sources of providers into a configuration file. Providers in the mirror are excluded from
    downloads, so that no registry is contacted for them."""
    mirror = Path(request["mirror"]) if request["mirror"] and Path(request["mirror"]).is_dir() else None
    lines: list[str] = []
    providers = sorted(_providers_in(mirror)) if mirror else []
    names = ", ".join(json.dumps(name) for name in providers)
    if mirror:
        lines += [
            f"  filesystem_mirror {{\n    path    = {json.dumps(str(mirror))}\n    include = [{names}]\n  }}"
        ]
    if request["downloads"]:
        lines += [f"  direct {{\n    exclude = [{names}]\n  }}"]
    file = folder / "windlass.tfrc"
    file.write_text("provider_installation {\n" + "\n".join(lines) + "\n}\n")
    return file


def _providers_in(mirror: Path) -> Iterator[str]:
    """Yields the addresses of all providers in a mirror, in the form HOST/NAMESPACE/TYPE."""
    for folder in mirror.glob("*/*/*"):
        if folder.is_dir() and "." in folder.parts[-3]:
            yield "/".join(folder.parts[-3:])
