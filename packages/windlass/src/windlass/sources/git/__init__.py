"""Fetches source code from git repositories."""

from windlass.sources.git.commit import GitCommit
from windlass.sources.git.fetch import Git
from windlass.sources.git.limits import Limits
from windlass.sources.git.source import GitError, GitSource

__all__ = ["Git", "GitCommit", "GitError", "GitSource", "Limits"]
