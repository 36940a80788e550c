"""Static sites: a folder of files that the gateway serves, without a process."""

from __future__ import annotations

from msgspec import Struct


class SiteHeader(Struct, frozen=True):
    """A header of answers whose path fits."""

    path: str
    """Begins with `/`; `*` stands for any characters."""
    name: str
    value: str


class StaticSite(Struct, frozen=True, kw_only=True):
    """A folder that is served as it is."""

    folder: str
    """Below the working folder of the artifact; `.` is that folder itself."""
    fallback: str = ""
    """A file below the folder, answered where no file has the path; empty is none."""
    derived_fallback: str = ""
    """The fallback that the recipe names. It counts where there is no other one, and the folder has this file
    and no 404.html."""
    headers: tuple[SiteHeader, ...] = ()
    """The first that fits counts, for each name."""
