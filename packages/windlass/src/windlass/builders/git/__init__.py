"""Git, which all code comes from."""

from windlass.builders.git.commit import GitCommit
from windlass.builders.git.fetch import Git
from windlass.builders.git.limits import Limits
from windlass.builders.git.source import GitError, GitSource

__all__ = ["Git", "GitCommit", "GitError", "GitSource", "Limits"]
