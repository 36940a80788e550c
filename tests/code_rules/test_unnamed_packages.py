"""The product does not name the kinds of services that packages bring: it asks kinds and families."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

import pytest

from tests.source import ROOT, SOURCES, place

_KINDS = "windlass.kinds"
_CONTRACT = "the words of the contract, which other clients send and read"
_EXPORT = "environments are exported as files for the Terraform provider, a client of the API"
_STORE = "tables are where the migrations are"
ALLOWED = {
    "api/openapi.py": "groups in the order of the contract",
    "api/requests.py": "the Terraform provider is a client of the API",
    "control/services/exported_fields.py": _EXPORT,
    "control/services/terraform_exports.py": _EXPORT,
    "control/services/terraform_files.py": _EXPORT,
    "core/declare/exported.py": _EXPORT,
    "core/declare/resource.py": _EXPORT,
    "core/words/hcl.py": _EXPORT,
    "families/environment.py": _EXPORT,
    "config/settings.py": "an example in the meaning of a setting",
    "core/declare/job_schedules.py": _CONTRACT,
    "core/words/audit.py": _CONTRACT,
    "core/words/not_offered.py": _CONTRACT,
    "core/words/events.py": _CONTRACT,
    "families/deployment_history.py": _CONTRACT,
    "kubernetes/releases.py": "labels that the program sets on the objects of a cluster",
    "process/doctor.py": "advice of doctor",
    "store/tables/plans.py": _STORE,
    "store/tables/row_sizes.py": _STORE,
    "store/tables/sealed.py": _STORE,
    "store/tables/terraform.py": _STORE,
    "store/transaction.py": _STORE,
}
"""Files that name such a kind, with the reason."""


def kinds_by_package() -> dict[str, set[str]]:
    """Returns the first words of the modules that each package brings as kinds, and their handlers."""
    found: dict[str, set[str]] = {}
    for file in sorted((ROOT / "packages").glob("*/pyproject.toml")):
        entries = tomllib.loads(file.read_text())["project"].get("entry-points", {}).get(_KINDS, {})
        if entries:
            found[file.parent.name] = {name.partition("_")[0] for name in entries}
    return found


def named_in(text: str, kinds: set[str]) -> bool:
    return re.search("|".join(kinds), text, re.I) is not None


def naming_files() -> Iterator[str]:
    for package, kinds in kinds_by_package().items():
        own = ROOT / "packages" / package
        yield from (
            place(file) for file in SOURCES if own not in file.parents and named_in(file.read_text(), kinds)
        )


def test_only_the_allowed_files_name_a_service_kind_of_a_package() -> None:
    assert {*naming_files()} == {*ALLOWED}


def test_kinds_by_package_finds_the_kind_of_the_terraform_package() -> None:
    assert kinds_by_package()["terraform"] == {"terraform"}


@pytest.mark.parametrize(
    "text", ["from windlass.terraform.kind import x", '"terraform"', "TERRAFORM", "class TerraformKind"]
)
def test_the_search_finds_every_form_in_which_a_kind_is_named(text: str) -> None:
    assert named_in(text, {"terraform"})
