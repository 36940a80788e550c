"""Names of repositories, independent of how their addresses are written."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from windlass.sources.git.source import RemoteAddress, place


def repository_key(url: str) -> str:
    """Returns a text that is the same for all addresses of a repository: `https` and `ssh`, with and without
    `.git`. Raises GitError for an invalid address.

    It is in lower case, as most git servers do not distinguish case. Two repositories with one key only share
    a webhook, whose deliveries are hints.
    """
    where = place(url)
    return f"{_host(where)}/{repository_path(url)}".lower()


def repository_path(url: str) -> str:
    """Returns the path of a repository at its git server, such as `acme/shop`."""
    where = place(url)
    if "://" not in where.url:  # git@host:owner/name.git
        path = where.url.partition("@")[2].partition(":")[2]
    else:
        path = urlsplit(where.url).path
    return unquote(path).strip("/").removesuffix(".git").strip("/")


def _host(remote_address: RemoteAddress) -> str:
    """Returns the host, with a port other than the usual one of https. The port of ssh is left out, because
    it differs from the one of https."""
    return str(remote_address.host) if remote_address.scheme == "ssh" else remote_address.shown
