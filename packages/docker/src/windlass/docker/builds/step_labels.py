"""Keeps labels away from the containers in which the classic builder runs steps.

These containers have the labels of their image. Proxies and other programs of the operator obey labels of
containers: a step could have them send the requests for another host to itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from windlass.builders.instructions import DockerfileError, Instruction, short

_LABEL_NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9._/@:-]{1,255}")
"""Names of labels that need no quotes in a Dockerfile."""


def label_names(refs: Iterable[str], images: Iterable[Mapping[str, Any]]) -> Mapping[str, tuple[str, ...]]:
    """Returns the names of the labels of images, by their names."""
    return {
        ref: tuple((image.get("Config") or {}).get("Labels") or ())
        for ref, image in zip(refs, images, strict=True)
    }


def emptied_labels(line: int, base: str, names: Sequence[str]) -> Iterator[str]:
    """Yields an instruction that empties the labels of a base image."""
    if odd := [name for name in names if not _LABEL_NAME_PATTERN.fullmatch(name)]:
        advice = f"use another image than {short(base)}: it has a label named {short(odd[0])}"
        raise DockerfileError(line, advice)
    if names:
        yield "LABEL " + " ".join(f'{name}=""' for name in names)


def sets_labels(instruction: Instruction) -> bool:
    text = instruction.text if instruction.name == "ONBUILD" else instruction.name
    return text.split(maxsplit=1)[0].upper() == "LABEL"
