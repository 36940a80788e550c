"""What the answer of an engine to `/version` says about its builds.

Some versions of runc trust `/dev/null` of a container (CVE-2025-31133, CVE-2025-52565). There, a step whose
mount covers `/dev` chooses which file its streams are: with a file of the kernel, it is root on the engine's
machine. A link leads any mount there, and only the step that makes the link knows of it. So with such a runc,
no step runs with a mount or a volume that has content before the step.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from windlass.builders.dockerfile import Dockerfile

_RUNC: Final = "runc"
_FIRST_MENDED: Final = ((1, 2, 8), (1, 3, 3))
_PRERELEASE_PATTERN: Final = re.compile(r"1\.4\.0-rc\.?[12]\b")
UPDATE: Final = "have the operator update runc of the Docker engine to 1.2.8, 1.3.3 or later"


def runc_version(version: Mapping[str, Any]) -> str:
    """Returns the version of an engine's runc, from the engine's answer to `/version`; empty if unknown."""
    for component in version.get("Components") or ():
        if component.get("Name") == _RUNC:
            return str(component.get("Version", ""))
    return ""


def trusts_devices(version: Mapping[str, Any]) -> bool:
    """Returns whether an engine's runc trusts `/dev/null` of a container. An unknown version counts as
    mended."""
    runc = runc_version(version)
    numbers = tuple(map(int, re.findall(r"\d{1,6}", runc)[:3]))
    if len(numbers) < 3:
        return False
    in_older_series, in_newer_series = _FIRST_MENDED
    is_older = numbers < in_older_series or (1, 3) <= numbers < in_newer_series
    return is_older or bool(_PRERELEASE_PATTERN.match(runc))


def has_volumes(image: Mapping[str, Any]) -> bool:
    """Returns whether the steps on a base image have volumes with the classic builder."""
    config = image.get("Config") or {}
    triggers = (str(trigger).split() for trigger in config.get("OnBuild") or ())
    return bool(config.get("Volumes")) or any(
        words[:1] and words[0].upper() == "VOLUME" for words in triggers
    )


def step_with_volumes(dockerfile: Dockerfile, *, of_bases: bool) -> int:
    """Returns the line of the first RUN that has volumes with the classic builder; 0 if there is none.
    `of_bases`: whether base images have some."""
    has_some = of_bases
    for line, name in _instruction_lines(dockerfile):
        if name == "RUN" and has_some:
            return line
        has_some = has_some or name == "VOLUME"
    return 0


def _instruction_lines(dockerfile: Dockerfile) -> Iterable[tuple[int, str]]:
    for stage in dockerfile.stages:
        for each in stage.instructions:
            yield each.line, each.text.split(maxsplit=1)[0].upper() if each.name == "ONBUILD" else each.name


def platform_arguments(version: Mapping[str, Any]) -> dict[str, str]:
    """Returns the platform build arguments. The engine builds for its own platform."""
    os, arch = str(version.get("Os", "linux")), str(version.get("Arch", "amd64"))
    values = {"PLATFORM": f"{os}/{arch}", "OS": os, "ARCH": arch, "VARIANT": ""}
    return {f"{side}{name}": value for side in ("TARGET", "BUILD") for name, value in values.items()}


def major_version(version: Mapping[str, Any]) -> int:
    number = str(version.get("Version", "")).partition(".")[0]
    return int(number) if number.isdecimal() else 0
