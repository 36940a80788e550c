"""The states of previews, in the words of the interface and of comments at git servers."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

PREVIEW_LABEL: Final = "preview"
"""The label of a pull request that asks for a preview."""


class PreviewState(StrEnum):
    PLANNED = "PLANNED"
    """It is written down, and its environment is made next."""
    WAITING_FOR_APPROVAL = "WAITING_FOR_APPROVAL"
    WAITING_FOR_ROOM = "WAITING_FOR_ROOM"
    DEPLOYING = "DEPLOYING"
    RUNNING = "RUNNING"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    ENDED = "ENDED"
    """Its environment is deleted."""


STATE_SENTENCES: Final[Mapping[PreviewState, str]] = {
    PreviewState.PLANNED: "The preview is being made.",
    PreviewState.WAITING_FOR_APPROVAL: "The pull request comes from a fork: a member has to approve this "
    "commit before it is built.",
    PreviewState.WAITING_FOR_ROOM: "The project has as many previews as it may have: this one is made when "
    "another one is gone.",
    PreviewState.DEPLOYING: "The preview is being deployed.",
    PreviewState.RUNNING: "The preview is running.",
    PreviewState.FAILED: "The preview was not deployed.",
    PreviewState.STOPPED: "The preview is stopped, because nothing new came for a while. The next commit "
    "starts it again.",
    PreviewState.ENDED: "The preview is deleted.",
}
