"""Opens addresses in the browser of this machine, where there is one."""

from __future__ import annotations

import sys
import webbrowser
from urllib.parse import urlsplit

from windlass.cli.deployments import say
from windlass.cli.user_folders import has_display


def browse(url: str) -> None:
    """Opens an address, unless it is no page, or only a browser for this terminal would show it."""
    if urlsplit(url).scheme not in {"http", "https"} or not (has_display() or sys.platform == "darwin"):
        return
    try:
        webbrowser.open(url)
    except webbrowser.Error:
        say("There is no browser that could be opened.")
