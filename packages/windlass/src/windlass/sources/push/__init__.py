"""The repositories to which applications are pushed: bare repositories of this server."""

from windlass.sources.push.commands import PushHead, PushRefused, RefUpdate
from windlass.sources.push.repositories import PackFile, PushedRepositories, repositories_of

__all__ = ["PackFile", "PushHead", "PushRefused", "PushedRepositories", "RefUpdate", "repositories_of"]
