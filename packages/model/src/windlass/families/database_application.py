"""The applications that use a database."""

from typing import Final

from windlass.core.declare.actions import get
from windlass.core.declare.registry import Actions
from windlass.families.application import application
from windlass.families.database import database

_LINKED_DESCRIPTION: Final = (
    "Applications with a variable or a secret, of their own or inherited, that is an alias of one of the "
    "database's, or mentions one as `{{NAME}}`. Every application of the environment also finds the "
    "database's own variables: one that reads only these is not listed."
)

of_databases = Actions(
    database,
    "Databases",
    (
        get(
            "application",
            list[application.view],  # type: ignore[name-defined]
            "List the applications that use it",
            _LINKED_DESCRIPTION,
            id="listDatabaseApplications",
            paged=False,
        ),
    ),
)
