"""Deleting a resource with services: the query of the operation and its description."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, field

from windlass.core.declare.spec import Spec

REMOVAL: Final = (
    "The deletion is stored when the answer arrives. A service that was deployed is DELETING until "
    "everything that was made for it is removed; then its id answers 404. If that fails, it is in "
    "DELETE_ERROR and its message says why: delete it again, or with `skipReconcile`. An environment or a "
    "project is deleted after the last of its services."
)


class Removal(Spec):
    skip_reconcile: Annotated[
        bool,
        Meta(
            description="Delete it at once, even if cleaning up fails or its engine is unavailable. Its "
            "remains are removed in the background, with retries until that succeeds."
        ),
    ] = field(default=False, name="skipReconcile")
