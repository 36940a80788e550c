"""Limits of an image's configuration, which the engine repeats in lists and descriptions.

These answers cover all services of an engine and are read as a whole: a single image must not make them too
long.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

MAX_PORTS: Final = 256
MAX_VOLUMES: Final = 64
MAX_LABELS_BYTES: Final = 16 * 1024
"""Maximum total size of an image's label names, in bytes. Containers repeat the names with empty values."""
MAX_COMMAND_BYTES: Final = 32 * 1024
MAX_VARIABLES_BYTES: Final = 512 * 1024
MAX_CONFIGURATION_BYTES: Final = 256 * 1024
"""Maximum size of an image's whole configuration, in bytes."""


def why_unfit(image: Mapping[str, Any]) -> str:
    """Returns advice on how to reduce an image's configuration; empty if it is within the limits."""
    config = image.get("Config") or {}
    if (count := len(config.get("ExposedPorts") or {})) > MAX_PORTS:
        return f"Expose fewer ports in the image: EXPOSE names {count}, and at most {MAX_PORTS} are allowed"
    if (count := len(config.get("Volumes") or {})) > MAX_VOLUMES:
        return (
            f"Declare fewer volumes in the image: VOLUME has {count}, and at most {MAX_VOLUMES} are allowed"
        )
    if written(config.get("Labels") or ()) > MAX_LABELS_BYTES:
        return "Use an image with fewer labels: their names are longer than 16 KB together"
    if written([*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())]) > MAX_COMMAND_BYTES:
        return "Put the command of the image into a file: ENTRYPOINT and CMD are longer than 32 KB together"
    if written([json.dumps(config)]) > MAX_CONFIGURATION_BYTES:
        return "Shorten labels and variables of the image: its configuration is longer than 256 KB"
    return ""


def written(texts: Iterable[str]) -> int:
    """Returns the maximum size of texts in the engine's JSON. The engine writes `<`, `>` and `&` as six
    characters, such as `\\u003c`."""
    return sum(len(json.dumps(text)) + 5 * sum(map(text.count, "<>&")) for text in texts)
