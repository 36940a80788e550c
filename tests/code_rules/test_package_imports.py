"""A package imports the packages that its pyproject.toml names, and those below them: it can be installed
without any other.

The control plane of the product is open to kinds of services: a package that names some as entry points is
loaded by a server, and there the product is installed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from tests.source import ROOT
from tests.suites import PACKAGES, PRODUCT, closure, imports, package_by_module, project


def undeclared(package: str, modules: Iterable[str]) -> Iterator[str]:
    """Yields those of these modules that belong to packages which a package does not name."""
    has_kinds = "windlass.kinds" in project(package).get("entry-points", {})
    allowed = closure(package) | ({PRODUCT} if has_kinds else set())
    for module in modules:
        owner = package_by_module().get(module)
        if owner and owner not in allowed:
            yield f"{module} of {owner}"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_packages_that_it_names(package):
    files = sorted((ROOT / "packages" / package / "src").rglob("*.py"))
    assert files
    found = {
        f"{file.relative_to(ROOT)} imports {stranger}"
        for file in files
        for stranger in undeclared(package, imports(file))
    }
    assert sorted(found) == [], "name it in pyproject.toml of the package, or move what is needed below both"


@pytest.mark.parametrize(
    ("package", "module", "is_refused"),
    [
        ("docker", "windlass.engines.engine", False),
        ("docker", "windlass.core.access", True),
        ("docker", "windlass.control.context.context", True),
        ("terraform", "windlass.control.context.context", False),
        ("terraform", "windlass.docker.engine", True),
        ("base", "windlass.detect.detect", True),
        ("process", "windlass.launch.terraform", True),
    ],
)
def test_an_import_of_another_package_is_found(package, module, is_refused):
    assert bool([*undeclared(package, [module])]) is is_refused
