"""The secrets of each deployment, as far as they are needed to hide them in logs and messages.

Lines come without waiting, and secrets are sealed in the database. So the secrets of a deployment are made
known when it is worked out; those of one that began before a start, or elsewhere, are looked up once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from windlass.base.ids import is_id
from windlass.core.words.masking import NOTHING, Mask

MOST_KNOWN: Final = 4096
"""Deployments. One that is left out is looked up again with its next line."""


class Masks:
    def __init__(self) -> None:
        self._known: OrderedDict[str, Mask] = OrderedDict()

    def add(self, deployment: str, secrets: Iterable[str]) -> None:
        """Adds values to hide in lines and messages of this deployment."""
        mask = self._known.pop(deployment, NOTHING)
        new = [value for value in secrets if value not in mask.values]
        self._known[deployment] = Mask([*mask.values, *new]) if new else mask
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)

    def know(self, deployment: str, secrets: Iterable[str]) -> None:
        """Sets the secrets of a deployment unless they are known. Cheap: called at every opening."""
        if deployment not in self._known:
            self.add(deployment, secrets)

    def of(self, deployment: str) -> Mask | None:
        """Returns the mask of a deployment, or None if it has to be looked up."""
        mask = self._known.get(deployment)
        if mask is None and not is_id(deployment):
            return NOTHING
        if mask is not None:
            self._known.move_to_end(deployment)
        return mask

    def text(self, deployment: str, text: str) -> str:
        """Masks the secrets of a deployment in a message about it."""
        return (self.of(deployment) or NOTHING).text(text)
