"""Static sites: a folder of files that the gateway serves, without a process."""

from __future__ import annotations

from msgspec import Struct


class SiteHeader(Struct, frozen=True):
    """A header of answers whose path fits."""

    path: str
    """Begins with `/`; `*` stands for any characters."""
    name: str
    value: str


class SiteRedirect(Struct, frozen=True):
    """An answer that sends the client to another address."""

    path: str
    """Begins with `/`; `*` stands for any characters."""
    target: str
    status: int = 302


class StaticSite(Struct, frozen=True, kw_only=True):
    """A folder that is served as it is."""

    folder: str
    """Below the working folder of the artifact; `.` is that folder itself."""
    fallback: str = ""
    """A file below the folder, answered where no file has the path; empty is none."""
    headers: tuple[SiteHeader, ...] = ()
    """The first that fits counts, for each name."""
    redirects: tuple[SiteRedirect, ...] = ()
