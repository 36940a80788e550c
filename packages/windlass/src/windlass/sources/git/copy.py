"""A working copy of a repository: fetches commits, then checks out the files of one commit."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from windlass.base import subprocesses
from windlass.sources.git.commit import LOG_FORMAT, GitCommit, commits, tag_names
from windlass.sources.git.kept import KeptCopy
from windlass.sources.git.limits import measure
from windlass.sources.git.listing import TreeListing, find_escaping_link
from windlass.sources.git.messages import NotByName
from windlass.sources.git.remote import Progress, Remote, silent
from windlass.sources.git.source import GitError, GitSource, wanted_commit, wanted_ref

WANTED_REF: Final = "refs/windlass/wanted"
BEFORE_REF: Final = "refs/windlass/before"
GIT_CONFIG: Final = {
    "sha1": "[core]\nrepositoryformatversion = 0\nbare = false\n",
    "sha256": "[core]\nrepositoryformatversion = 1\nbare = false\n[extensions]\nobjectFormat = sha256\n",
}


class NotKept(GitError):
    """Raised if a kept copy cannot be used, so that the commit has to be fetched into an empty folder."""


class Copy(Struct, frozen=True):
    remote: Remote
    source: GitSource
    folder: Path
    progress: Progress = silent
    options: tuple[str, ...] = ()
    """Additional options of `git fetch`."""
    kept: KeptCopy | None = None
    """The kept copy to start from. After the checkout, its store is kept for the next fetch."""

    async def commits(self, limit: int = 1) -> list[GitCommit]:
        """Fetches the wanted commit with its predecessors, and returns up to `limit` commits, newest
        first."""
        _, tags = await subprocesses.run_together(self._receive(limit), self._tags())
        words = (
            "log",
            "-z",
            "--encoding=UTF-8",
            f"--max-count={limit}",
            f"--format={LOG_FORMAT}",
            WANTED_REF,
            "--",
        )
        if not (listed := commits(await self.remote.ask(*words, copy=self.folder), tags)):
            raise GitError("This is not a commit.")
        return listed

    async def changed_paths(self, old_commit: str, new_commit: str) -> list[str]:
        """Fetches two commits without file contents, and returns the paths of files that differ between
        them."""
        _lay_out(self.folder / ".git", "sha256" if len(new_commit) == 64 else "sha1")
        await self._pull((f"{old_commit}:{BEFORE_REF}", f"{new_commit}:{WANTED_REF}"), "--depth=1")
        words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", BEFORE_REF, WANTED_REF, "--")
        return (await self.remote.ask(*words, copy=self.folder)).split("\0")[:-1]

    async def check_out(self, commit: str) -> None:
        listing = TreeListing(self.remote.limits)
        listed = ("ls-tree", "-r", "-t", "-l", "-z", "--full-tree", commit)
        await self.remote.run(*listed, copy=self.folder, receive_data=listing.feed)
        if self.kept and self.kept.taken and self.kept.taken.attributes != listing.attributes:
            raise NotKept("The attributes of files have changed.")  # git would rewrite only changed files
        words = ("checkout", "--quiet", "--force", "--detach", commit)
        await self.remote.run(*words, copy=self.folder, watched=self.folder)
        await subprocesses.in_thread(self._settle, commit, listing)
        for path in listing.submodules:
            self.progress(f"The submodule {path} is not fetched.")
        if _uses_lfs(self.folder / ".gitattributes"):
            self.progress("Files in Git LFS are not fetched; the build gets their pointer files instead.")

    def _settle(self, commit: str, listing: TreeListing) -> None:
        if self.kept:
            self.kept.leave_store(self.folder, self.remote.url, commit, listing.attributes)
        else:
            shutil.rmtree(self.folder / ".git")
        self.remote.limits.check(*measure(self.folder))
        if link := find_escaping_link(self.folder, listing.links):
            raise GitError(
                f"Remove the symbolic link {link}, or commit the file itself: it leads out of the repository."
            )

    async def _receive(self, limit: int) -> None:
        commit = wanted_commit(self.source)
        if not (self.kept and self.kept.taken):
            _lay_out(self.folder / ".git", "sha256" if len(commit or "") == 64 else "sha1")
        if commit is None:
            await self._pull((f"{wanted_ref(self.source)}:{WANTED_REF}",), f"--depth={limit}")
        elif len(commit) not in (40, 64):
            await self._search(commit)
        else:
            try:
                await self._pull((f"{commit}:{WANTED_REF}",), f"--depth={limit}")
            except NotByName:
                await self._search(commit)

    async def _search(self, commit: str) -> None:
        """Fetches the whole branch, and looks for the commit in it.

        Needed for an abbreviated commit id, and for servers that do not serve single commits.
        """
        if self.kept and self.kept.taken:
            raise NotKept("A kept store has no whole branch.")
        self.progress("The git server does not support fetching a single commit; fetching the whole branch.")
        await self._pull((f"{wanted_ref(self.source)}:{WANTED_REF}",))
        try:
            words = ("rev-parse", "--verify", f"{commit}^{{commit}}")
            answer = await self.remote.ask(*words, copy=self.folder)
        except GitError as error:
            where = f"{self.source.branch or 'the default branch'} of {self.remote.url}"
            raise GitError(
                f"Choose another commit, or push this one: {where} has no {commit}, or several that begin so."
            ) from error
        await self.remote.run("update-ref", WANTED_REF, answer.strip(), copy=self.folder)

    async def _pull(self, refs: Sequence[str], *depth: str) -> None:
        """Fetches `refs`, which are refspecs with a remote and a local name."""
        fixed = ("--progress", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
        words = ("fetch", *fixed, *self.options, *depth, "--", self.remote.url, *(f"+{ref}" for ref in refs))
        objects = self.folder / ".git" / "objects"
        await self.remote.run(*words, copy=self.folder, progress=self.progress, watched=objects)

    async def _tags(self) -> dict[str, str]:
        """Returns the tag names by commit; empty if the server does not list them."""
        with suppress(GitError):
            return tag_names(await self.remote.ask("ls-remote", "--tags", "--", self.remote.url))
        return {}


def _lay_out(store: Path, names: str) -> None:
    """Creates an empty repository, see gitrepository-layout(5). Running `git init` would take as long as a
    small fetch."""
    for folder in ("objects", "refs"):
        (store / folder).mkdir(parents=True)
    (store / "HEAD").write_text("ref: refs/heads/none\n")
    (store / "config").write_text(GIT_CONFIG[names])


def _uses_lfs(attributes: Path) -> bool:
    if attributes.is_symlink() or not attributes.is_file():
        return False
    with attributes.open("rb") as lines:
        return b"filter=lfs" in lines.read(64 * 1024)
