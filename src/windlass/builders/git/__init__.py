"""Git, the only way in which code comes in."""

from windlass.builders.git.commit import Commit
from windlass.builders.git.fetch import Git
from windlass.builders.git.limits import Limits
from windlass.builders.git.source import GitError, Source

__all__ = ["Commit", "Git", "GitError", "Limits", "Source"]
