"""Settings of a build: commands, versions, packages, and paths relative to the application's folder.

Each pattern can match a text in only one way, so that matching does not backtrack.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from windlass.core.declare.fields import BLANK_RANGES, CONTROL_RANGES, shaped
from windlass.core.declare.resource import Spec

MAX_COMMAND_LENGTH: Final = 2000
_NO_CONTROLS_PATTERN: Final = rf"[^{CONTROL_RANGES}]"
_PATH_PART_PATTERN: Final = rf"\.?[^{CONTROL_RANGES}./\\][^{CONTROL_RANGES}/\\]*"
"""Matches a segment of a path, except `..`."""
_PATH_PATTERN: Final = rf"(\./)?{_PATH_PART_PATTERN}(/{_PATH_PART_PATTERN})*"

Command = Annotated[
    str,
    Meta(
        max_length=MAX_COMMAND_LENGTH,
        pattern=shaped(
            rf"^([^{CONTROL_RANGES}{BLANK_RANGES}]{_NO_CONTROLS_PATTERN}*|)\Z",
            "must be one line as a shell reads it, without control characters and without a blank before it; "
            "join several commands with &&",
        ),
    ),
]
Folder = Annotated[
    str,
    Meta(
        max_length=500,
        pattern=shaped(
            rf"^({_PATH_PATTERN}/?|\.|)\Z",
            "must be a path below the folder of the application, such as dist, without .. and not beginning "
            "with /",
        ),
    ),
]
File = Annotated[
    str,
    Meta(
        max_length=500,
        pattern=shaped(
            rf"^({_PATH_PATTERN}|)\Z",
            "must be a path of a file, such as index.html, without .. and not beginning with /",
        ),
    ),
]
WatchedPath = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=500,
        pattern=shaped(
            rf"^!?(?![!#]){_PATH_PATTERN}/?\Z",
            "must be a path of the repository, such as web or docs/*.md, without .. and not beginning with "
            "/; ! before it excludes",
        ),
    ),
]
RestrictedPath = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=500,
        pattern=shaped(
            rf"^/?(?![!#]){_PATH_PATTERN}/?\Z",
            "must be a path of the repository, such as web or docs/*.md, without ..",
        ),
    ),
]
LanguageVersion = Annotated[
    str,
    Meta(
        max_length=60,
        pattern=shaped(
            r"^([A-Za-z0-9^~<>=*][A-Za-z0-9_.*^~<>=|, +/-]*|)\Z", "must be a version such as 3.12 or >=20"
        ),
    ),
]
SystemPackage = Annotated[
    str,
    Meta(
        min_length=2,
        max_length=100,
        pattern=shaped(
            r"^[a-z0-9][a-z0-9.+-]+\Z",
            "must be the name of a Debian package, such as libpq-dev, without a version",
        ),
        examples=["libpq-dev"],
    ),
]
ProcessName = Annotated[
    str,
    Meta(
        max_length=60,
        pattern=shaped(
            r"^[A-Za-z0-9_-]*\Z",
            "must be the name of a process type, such as web or worker: letters, digits, _ and -",
        ),
    ),
]


class StaticHeader(Spec):
    """A header that the gateway adds to the files of a static site."""

    path: Annotated[
        str,
        Meta(
            max_length=500,
            pattern=shaped(r"^/[!-~]*\Z", "must be a path that begins with /, such as /assets/*"),
            description="Paths of the site; * stands for any characters",
            examples=["/assets/*"],
        ),
    ]
    name: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=100,
            pattern=shaped(
                r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z", "must be the name of a header, such as Cache-Control"
            ),
            examples=["Cache-Control"],
        ),
    ]
    value: Annotated[
        str,
        Meta(
            max_length=2000,
            pattern=shaped(
                r"^[!-~]([ -~]*[!-~])?\Z",
                "must be the value of a header: ASCII without control characters, and no blank at either end",
            ),
            examples=["public, max-age=31536000, immutable"],
        ),
    ]
