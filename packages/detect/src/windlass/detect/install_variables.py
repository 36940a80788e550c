"""Variables of a service that its installation step gets. All others reach only the build.

Each of them is part of what identifies the installed packages: a change of its value has them installed
again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_SETTINGS_PATTERN: Final = re.compile(
    r"(?:PIP|UV|POETRY|PDM|PIPENV|NPM_CONFIG|YARN|BUN|GO|CARGO|BUNDLE|COMPOSER|NUGET|HEX|MAVEN|GRADLE|PERL_CARTON)_\w+"
    r"|GO(?:PROXY|PRIVATE|NOPROXY|NOSUMDB|SUMDB|FLAGS)",
    re.IGNORECASE,
)
"""Settings of package managers, such as a mirror."""
_SWITCHES_PATTERN: Final = re.compile(
    r"(?:PUPPETEER|CYPRESS|PLAYWRIGHT|ELECTRON|SHARP|PRISMA|SENTRYCLI|CHROMEDRIVER|GECKODRIVER|SASS|GRPC"
    r"|ONNXRUNTIME_NODE|NODE_PRE_GYP|YOUTUBE_DL|FFMPEG|PSYCOPG|CMAKE)_\w{1,60}"
    r"|\w{1,40}_SKIP_\w{0,20}(?:DOWNLOAD|INSTALL)\w{0,20}|SKIP_\w{1,40}|HUSKY|DISABLE_OPENCOLLECTIVE|ADBLOCK"
    r"|(?:CPP|C|CXX|LD|MAKE)FLAGS"
)
"""Variables by which packages decide what their own installation scripts download or compile."""


def reaches_installation(name: str) -> bool:
    """Returns whether a variable of the service is passed to the installation step."""
    return bool(_SETTINGS_PATTERN.fullmatch(name)) or is_switch(name)


def is_switch(name: str) -> bool:
    """Returns whether a variable concerns the installation scripts of packages."""
    return bool(_SWITCHES_PATTERN.fullmatch(name))


def switches(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if is_switch(name)}
