"""The results of pushes: what was done after a push, or why nothing was."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class PushResult(StrEnum):
    RECEIVED = "RECEIVED"
    """The branch is looked at soon."""
    PASSED_ON = "PASSED_ON"
    """A delivery whose meaning for each service has a row of its own."""
    DEPLOYED = "DEPLOYED"
    ALREADY_KNOWN = "ALREADY_KNOWN"
    NO_WATCHED_PATH = "NO_WATCHED_PATH"
    OTHER_BRANCH = "OTHER_BRANCH"
    OTHER_COMMIT = "OTHER_COMMIT"
    NOT_RUNNING = "NOT_RUNNING"
    AUTO_DEPLOY_OFF = "AUTO_DEPLOY_OFF"
    NO_SERVICE = "NO_SERVICE"
    PULL_REQUEST = "PULL_REQUEST"
    """The pull requests of the repository are looked at soon."""
    PULL_REQUESTS_LOOKED_AT = "PULL_REQUESTS_LOOKED_AT"
    NO_PREVIEWS = "NO_PREVIEWS"
    COMMENT = "COMMENT"
    """A comment with a command is read soon."""
    COMMAND_DONE = "COMMAND_DONE"
    COMMAND_REFUSED = "COMMAND_REFUSED"
    PING = "PING"
    OTHER_EVENT = "OTHER_EVENT"
    NO_BRANCH = "NO_BRANCH"
    WRONG_SIGNATURE = "WRONG_SIGNATURE"
    NO_SIGNATURE = "NO_SIGNATURE"


RESULT_SENTENCES: Final[Mapping[str, str]] = {
    PushResult.RECEIVED: "The branch is looked at now",
    PushResult.PASSED_ON: "It was passed on to the services of the repository",
    PushResult.DEPLOYED: "The commit is deployed",
    PushResult.ALREADY_KNOWN: "Nothing is done: the commit was seen or deployed before",
    PushResult.NO_WATCHED_PATH: "Not deployed: no watched path changed",
    PushResult.OTHER_BRANCH: "Not deployed: it is a push to another branch",
    PushResult.OTHER_COMMIT: "Not deployed: the branch is at another commit by now",
    PushResult.NOT_RUNNING: "Not deployed: the service was never deployed, or was stopped",
    PushResult.AUTO_DEPLOY_OFF: "Not deployed: auto_deploy is off for this service",
    PushResult.NO_SERVICE: "Nothing is done: no service is built from this repository any more",
    PushResult.PULL_REQUEST: "The pull requests of the repository are looked at now",
    PushResult.PULL_REQUESTS_LOOKED_AT: "The pull requests were looked at: the previews of the environment "
    "say what was done",
    PushResult.NO_PREVIEWS: "Nothing is done: no environment of the repository has previews on",
    PushResult.COMMENT: "The comment with a command is read now",
    PushResult.COMMAND_DONE: "The command in the comment is carried out",
    PushResult.COMMAND_REFUSED: "Nothing is done after the comment",
    PushResult.PING: "The git server has tried the address: it works",
    PushResult.OTHER_EVENT: "Nothing is done: it is no push, no pull request and no comment with a command",
    PushResult.NO_BRANCH: "Nothing is done: the push is of a tag, or removes a branch",
    PushResult.WRONG_SIGNATURE: "Refused: the signature does not match the secret of the webhook",
    PushResult.NO_SIGNATURE: "Refused: it has no signature; enter the secret at the git server",
}
FOUND_BY_LOOKING: Final = "no webhook came, found by looking"
