"""The people who wrote the newest commits of an application's branch."""

from typing import Annotated, Final

from msgspec import Meta

from windlass.core.declare.actions import get
from windlass.core.declare.fields import example
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import Shown
from windlass.families.application import application


class Contributor(Shown):
    """The author of a commit, as recorded in the commit."""

    first_name: Annotated[str, example("Ada")]
    last_name: Annotated[
        str, Meta(description="The rest of the name; empty if it is one word"), example("Lovelace")
    ]
    email: Annotated[
        str, Meta(description="As the commit has it; empty if it has none"), example("ada@example.com")
    ]


_CONTRIBUTORS_DESCRIPTION: Final = (
    "The authors of the newest commits, each address once, the newest first. They need not be members of the "
    "organization. 409 if the repository cannot be read."
)

of_applications = Actions(
    application,
    "Applications",
    (
        get(
            "contributor",
            list[Contributor],
            "List the authors of the newest commits",
            _CONTRIBUTORS_DESCRIPTION,
            id="listApplicationContributors",
            paged=False,
            also=(409,),
            outside=True,
        ),
    ),
)
