"""Limits on the configuration of an image, which lists and descriptions of an engine repeat.

They are read whole, for all services of an engine: one image must not make them too long.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

MOST_PORTS: Final = 256
MOST_VOLUMES: Final = 64
LONGEST_LABELS: Final = 16 * 1024
"""Bytes of the names of an image's labels together: containers have them, with empty values."""
LONGEST_COMMAND: Final = 32 * 1024
LONGEST_VARIABLES: Final = 512 * 1024
LONGEST_ALL: Final = 256 * 1024
"""Bytes of the whole configuration of an image, with variables, values of labels and its health check."""


def why_unfit(image: Mapping[str, Any]) -> str:
    """Returns what to change in an image before it is used; empty if it fits."""
    config = image.get("Config") or {}
    if (count := len(config.get("ExposedPorts") or {})) > MOST_PORTS:
        return f"Expose fewer ports in the image: EXPOSE names {count}, and at most {MOST_PORTS} are allowed"
    if (count := len(config.get("Volumes") or {})) > MOST_VOLUMES:
        return (
            f"Declare fewer volumes in the image: VOLUME has {count}, and at most {MOST_VOLUMES} are allowed"
        )
    if written(config.get("Labels") or ()) > LONGEST_LABELS:
        return "Use an image with fewer labels: their names are longer than 16 KB together"
    if written([*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())]) > LONGEST_COMMAND:
        return "Put the command of the image into a file: ENTRYPOINT and CMD are longer than 32 KB together"
    if written([json.dumps(config)]) > LONGEST_ALL:
        return "Shorten labels and variables of the image: its configuration is longer than 256 KB"
    return ""


def written(texts: Iterable[str]) -> int:
    """Returns the most bytes that the engine writes for texts. It writes these signs as six: `\\u003c`."""
    return sum(len(json.dumps(text)) + 5 * sum(map(text.count, "<>&")) for text in texts)
