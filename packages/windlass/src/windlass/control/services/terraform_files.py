"""Writes the Terraform files of an exported environment, and packs them. Pure."""

from __future__ import annotations

import io
import zipfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from windlass.core.words.hcl import Expression, Identifiers, block, comment
from windlass.core.words.naming import with_article

_OLDEST_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""The time of all files, so that the same environment always gives the same archive."""
_PROVIDER: Final = """\
terraform {
  required_providers {
    qovery = {
      source = "qovery/qovery"
    }
  }
}
"""
NOT_EXPORTED: Final = "Not in the provider: "
OVERRIDES_OF_IMPORTS: Final = "imports_override"
"""The name of a file that Terraform merges into the others."""
_README: Final = """\
# {name}

These files describe the environment `{name}`, for the Terraform provider `qovery/qovery`.

1. Tell the provider where Windlass is, and give it an API token:

   ```sh
   export TEST_QOVERY_HOST=https://windlass.example.com/compat QOVERY_API_TOKEN=…
   ```

2. Give each secret a value, in a file `secrets.auto.tfvars` that you do not commit. `variables.tf` names
   them; their values are not in these files.
3. To let Terraform manage the environment that exists, keep `imports.tf` and `imports_override.tf`, if
   it is there. Run `terraform init`, `terraform plan`, which shows imports and no change, and `terraform
   apply`. Then delete both files: `imports_override.tf` excludes attributes that the provider does not
   read from the server, such as values of secrets. The next plan sets these once.
4. To make another environment, delete `imports.tf` and `imports_override.tf`, and choose other names in
   `environment.tf`. Run `terraform init`, `terraform plan`, and `terraform apply`. Then deploy the
   environment.

Running hours, previews, data, deployments and logs are not in these files.
"""
_LEFT_OUT: Final = """
## What the provider cannot express

Set these by hand, with the console or the command line. When Terraform changes a resource, its settings of
this list go back to their defaults:

"""


class ResourceBlock(NamedTuple):
    """A resource of the configuration."""

    type: str
    label: str
    fields: Mapping[str, object]
    import_id: str
    """The id by which the provider imports it; empty if it cannot."""
    notes: Sequence[str] = ()
    """The settings that the provider cannot express."""
    unread: Sequence[str] = ()
    """The attributes that the provider reads differently, or not at all, when it imports the resource."""

    @property
    def address(self) -> str:
        return f"{self.type}.{self.label}"


class ExportedFile(NamedTuple):
    name: str
    text: str


class InputVariables:
    """The input variables of the files: resources outside of the environment, and values of secrets."""

    def __init__(self) -> None:
        self._names = Identifiers()
        self._blocks: list[str] = []
        self._outside: dict[str, Expression] = {}
        self._owner = ""

    def of(self, owner: str) -> None:
        """Names the resource to which the following secrets belong."""
        self._owner = owner

    def outside(self, noun: str, id: str) -> Expression:
        if id not in self._outside:
            wanted = f"{noun} id" if noun not in _NUMBERED else f"{noun} {id[:8]}"
            name = self._names.make(wanted, "id")
            about = f"Id of {with_article(noun)}"
            self._declare(name, {"description": about, "default": id})
            self._outside[id] = Expression(f"var.{name}")
        return self._outside[id]

    def secret(self, key: str) -> Expression:
        name = self._names.make(f"{self._owner} {key}", "secret")
        self._declare(name, {"description": f"Secret {key} of {self._owner}", "sensitive": True})
        return Expression(f"var.{name}")

    def _declare(self, name: str, fields: Mapping[str, object]) -> None:
        self._blocks.append(block("variable", [name], {"type": Expression("string"), **fields}))

    @property
    def text(self) -> str:
        return "\n".join(self._blocks)


_NUMBERED: Final = frozenset({"git token", "container registry", "annotations group", "labels group"})
"""The nouns of resources of which an environment may use several."""


class TerraformFiles:
    """The files, which grow by one resource after another."""

    def __init__(self, name: str) -> None:
        self.inputs = InputVariables()
        self._name = name
        self._blocks: defaultdict[str, list[str]] = defaultdict(list)
        self._labels: defaultdict[str, Identifiers] = defaultdict(Identifiers)
        self._left_out: list[str] = []
        self.size = 0

    def label(self, type_name: str, name: str) -> str:
        """Returns a label for a resource that no other resource of this type has."""
        return self._labels[type_name].make(name, type_name.partition("_")[2])

    def add(self, file: str, resource: ResourceBlock) -> None:
        """Adds a resource to a file. `file`: its name without the ending."""
        labels = (resource.type, resource.label)
        notes = [NOT_EXPORTED + note for note in resource.notes]
        text = block("resource", labels, resource.fields, notes)
        self._blocks[file].append(text)
        if resource.import_id:
            imported = {"to": Expression(resource.address), "id": resource.import_id}
            self._blocks["imports"].append(block("import", [], imported))
            if resource.unread:
                self._blocks[OVERRIDES_OF_IMPORTS].append(_without_changes(resource))
        self._left_out += [f"- `{resource.address}`: {_plain(note)}\n" for note in resource.notes]
        self.size += len(text)

    def files(self) -> list[ExportedFile]:
        readme = _README.format(name=_plain(self._name))
        if self._left_out:
            readme += _LEFT_OUT + "".join(self._left_out)
        texts = {name: "\n".join(blocks) for name, blocks in self._blocks.items()}
        texts |= {"provider": _PROVIDER, "variables": self.inputs.text}
        return [ExportedFile("README.md", readme)] + [
            ExportedFile(f"{name}.tf", text) for name, text in sorted(texts.items())
        ]


def _without_changes(resource: ResourceBlock) -> str:
    """Returns the block of a file of overrides that excludes attributes of the resource from plans."""
    names = ", ".join(resource.unread)
    return (
        f'resource "{resource.type}" "{resource.label}" {{\n'
        f"  lifecycle {{\n    ignore_changes = [{names}]\n  }}\n}}\n"
    )


def _plain(text: str) -> str:
    """Returns a text for a line of Markdown."""
    return comment(text).removeprefix("# ").replace("`", "'")


def packed(files: Sequence[ExportedFile]) -> bytes:
    """Returns the files as a ZIP archive."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for file in files:
            zipped.writestr(zipfile.ZipInfo(file.name, _OLDEST_TIME), file.text, zipfile.ZIP_DEFLATED)
    return archive.getvalue()
