"""Lists of the full interface whose families Windlass does not have yet. Pure.

Existing clients read some of them on their way to something else, and end at a 404. There is nothing in them,
and that is what they are told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from windlass.base.lazy import lazy_pattern

LATER_LISTS: Final[Mapping[str, str]] = {
    "/database/{}/backup": "database",
    "/organization/{}/alert-receivers": "organization",
    "/organization/{}/alert-rules": "organization",
    "/organization/{}/argoCdDestinationClusterMapping": "organization",
    "/organization/{}/customRole": "organization",
    "/organization/{}/enterpriseconnection": "organization",
    "/organization/{}/policyApiToken": "organization",
}
"""The families of the resources to which the lists belong, by path. `{}` stands for the resource's id."""
_PATTERN: Final = lazy_pattern(
    "|".join(re.escape(path).replace(r"\{\}", "[^/]+") for path in sorted(LATER_LISTS))
)


def holder_of(path: str) -> tuple[str, str] | None:
    """Returns the family and the id of the resource to which the list at a path belongs; None for other
    paths."""
    if not _PATTERN.fullmatch(path):
        return None
    id = path.split("/")[2]
    return LATER_LISTS[path.replace(f"/{id}", "/{}", 1)], id
