"""The page of the manual about advanced settings, from their table.

`python -m tests.advanced.page` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from windlass.core.settings.cluster_settings import OF_CLUSTERS
from windlass.core.settings.service_settings import TABLE
from windlass.core.settings.setting import AdvancedSetting, Effect

PAGE = Path(__file__).parents[2] / "docs/advanced-settings.md"
KINDS = {"A": "application", "C": "container", "J": "job", "R": "Helm chart", "T": "Terraform"}
ABSENT = "R"
"""Kinds on which no setting acts."""
TIMES = {
    Effect.AT_ONCE: "at once",
    Effect.BUILD: "with the next build",
    Effect.DEPLOYMENT: "with the next deployment",
}
_OPENING = """# Advanced settings

Applications, containers, jobs, Terraform services and clusters have settings that most people never change.
Their keys are those of the full interface, so that its clients can read and replace them. Keys that begin
with `windlass.` are settings that the full interface lacks. This page is made from the table in the code.

```sh
windlass settings list web                # the keys that act, with their values; --all: all keys
windlass settings set web deployment.termination_grace_period_seconds=30
windlass settings unset web deployment.termination_grace_period_seconds
windlass application default-advanced-settings    # all keys with their defaults
```

`GET` and `PUT` of `/application/{app_id}/advancedSettings` read and replace all keys of a service; `PUT` sets
the keys that are left out to their defaults. Unknown keys and values of a wrong type are refused with their
names. A change needs Write, for a cluster Admin, and is in the audit as a change of the service. A copy of
the service has the same settings. The service itself shows the keys that were changed in its field
`advanced_settings`.

A setting that acts *with the next deployment* makes the service `OUT_OF_DATE` until it is deployed. One that
acts *with the next build* changes nothing of what runs.

## Settings that act

The column *On* says on which engines a setting acts. Settings that begin with `network.` and `windlass.`
are those of the gateway, which is the same for all engines. The experimental [Kubernetes
engine](kubernetes.md) runs images that a Docker engine builds: settings of builds act there as on Docker.

"""
_IDLE = """
## Settings without effect

These keys are stored and answered, for clients that send them. A change of them changes nothing.

"""
_KUBERNETES = """
## Settings for Kubernetes only

These keys are stored and answered, too. They have a meaning on Kubernetes clusters, and the experimental
[Kubernetes engine](kubernetes.md) does not use them yet.

"""
_CLUSTERS = """
## Settings of clusters

Windlass acts on none of the keys of a cluster: they configure a cloud or the parts of a Kubernetes cluster.
They are stored and answered.

"""


def page() -> str:
    acting = [row for row in TABLE if row.acts]
    parts = [_OPENING, *_table(acting, TIMES)]
    parts += [_IDLE, *_table(_idle())]
    parts += [_KUBERNETES, *_table(row for row in TABLE if row.effect is Effect.KUBERNETES)]
    parts += [_CLUSTERS, *_clusters()]
    return "".join(parts)


def _idle() -> Iterator[AdvancedSetting]:
    for row in TABLE:
        others = "".join(letter for letter in row.of if row.acts and not row.of_kind(letter).acts)
        if row.effect is Effect.NONE:
            yield row
        elif others:
            yield replace(row.of_kind(others[0]), of=others, acts_of="")


def _table(rows: Iterable[AdvancedSetting], times: dict[Effect, str] | None = None) -> Iterator[str]:
    yield from _row("Key", "Type", "Default", "Of", *(["Acts", "On"] if times else []), "Meaning")
    yield from _row(*["---"] * (7 if times else 5))
    for row in rows:
        kinds = ", ".join(
            KINDS[letter] for letter in (row.acts_of or row.of) if not (times and letter in ABSENT)
        )
        when = [times[row.effect], row.engines] if times else []
        yield from _row(f"`{row.name}`", row.type_in_words, default_of(row), kinds, *when, meaning_of(row))


def _clusters() -> Iterator[str]:
    yield from _row("Key", "Type", "Default", "Meaning")
    yield from _row("---", "---", "---", "---")
    for row in OF_CLUSTERS.rows:
        yield from _row(f"`{row.name}`", row.type_in_words, default_of(row), meaning_of(row))


def _row(*cells: str) -> Sequence[str]:
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"]


def default_of(row: AdvancedSetting) -> str:
    if row.operator:
        return f"setting `{row.operator}`"
    unit = f" {row.unit}" if row.unit and row.default is not None and row.unit not in {"percent"} else ""
    return f"`{json.dumps(row.default)}`{unit}"


def meaning_of(row: AdvancedSetting) -> str:
    return f"{row.about}. {row.note}." if row.note else f"{row.about}."


if __name__ == "__main__":
    PAGE.write_text(page())
