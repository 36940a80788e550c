"""Commands that run in services: in an instance over a websocket, or as a one-off run."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from windlass.core.access import Scope
from windlass.core.declare.actions import Trait, get, post
from windlass.core.declare.spec import Spec
from windlass.core.declare.traits import Deployment

MAX_WORD_LENGTH = 32_768
MAX_WORDS = 1000

Word = Annotated[str, Meta(max_length=MAX_WORD_LENGTH)]
InstanceName = Annotated[
    str,
    Meta(
        max_length=128,
        description="The name of an instance, as in its log lines, or its index; without it, the first",
    ),
]


class ExecRequest(Spec):
    """The query of a websocket that runs a command."""

    command: Annotated[
        list[Word],
        Meta(max_length=MAX_WORDS, description="A word of the command, repeated; without it, a shell"),
    ] = []
    tty: Annotated[bool, Meta(description="Give the command a terminal")] = False
    columns: Annotated[int, Meta(ge=1, le=1000, description="Width of the terminal")] = 80
    rows: Annotated[int, Meta(ge=1, le=1000, description="Height of the terminal")] = 24
    instance: InstanceName = ""


class ConnectRequest(Spec):
    """The query of a websocket that connects to the port of a service."""

    instance: InstanceName = ""
    port: Annotated[
        int,
        Meta(ge=0, le=65_535, description="A port on which the program listens; 0 is the lowest"),
    ] = 0


runs_commands = Trait(
    name="runs_commands",
    actions=(
        get("exec", None, "Run a command in an instance", need=Scope.DEPLOY, query=ExecRequest, is_raw=True),
        get("connect", None, "Connect to a port", need=Scope.DEPLOY, query=ConnectRequest, is_raw=True),
    ),
)
"""Services with this trait run a program. Further commands can run in its instances, and a websocket forwards
a connection to one of its ports, also if the port is not public."""


class RunRequest(Spec):
    """A command to run once."""

    command: Annotated[
        list[Word],
        Meta(
            min_length=1,
            max_length=MAX_WORDS,
            description="The words of the command",
            examples=[["python", "manage.py", "migrate"]],
        ),
    ]


_RUN_DESCRIPTION = (
    "Runs the command in the current build, with the current settings, beside the instances and without "
    "ports. The deployment has action RUN; its log has the output, and `run` the exit code. It waits for "
    "deployments under way, and later ones wait for it. 409 if nothing was deployed."
)

has_one_off_runs = Trait(
    name="has_one_off_runs",
    actions=(
        post(
            "run",
            Deployment,
            "Run a command once",
            _RUN_DESCRIPTION,
            need=Scope.DEPLOY,
            body=RunRequest,
            also=(409,),
        ),
    ),
)
"""Services with this trait have a build or image in which other commands can run once."""
