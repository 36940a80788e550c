"""Lays out the files of a Dockerfile's stages as they would be in the image, as far as they are copied."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from msgspec import Struct

from windlass.builders.builder import BuildError
from windlass.builders.ignore import Ignore, fits
from windlass.builders.ignore import read as ignoring
from windlass.builders.native import tree
from windlass.builders.native.recipe import Cooked, Copying, Passed, Recipe, Running

# What stands before it may end a word, an assignment or an item of a list of paths.
_PATHS = re.compile(r"(?<![\w./$}~-])/[\w.@+-]+(?:/[\w.@+-]*)*")


class Layout(Struct, frozen=True, kw_only=True):
    """The code, and where in the image it would be."""

    app: Path
    top: str = "/"
    """The path in the image that `app` stands for."""
    workdir: str = "/"
    """In the image; at or below `top`."""
    image: bool = False
    """Without one, a path means a path of this machine."""

    @property
    def below(self) -> str:
        """The working folder, below `app`."""
        found = posixpath.relpath(self.workdir, self.top)
        return "" if found == "." else found

    @property
    def folder(self) -> Path:
        return self.app / self.below

    def at(self, path: str) -> Path | None:
        """Where a path of the image is on disk; nothing if it is not below `top`."""
        whole = posixpath.normpath(posixpath.join(self.workdir, path))
        if not _below(whole, self.top):
            return None
        return self.app / posixpath.relpath(whole, self.top)

    def here(self, text: str) -> str:
        """With the paths of the image as paths from the working folder, as long as they are ours."""
        return _PATHS.sub(lambda found: self._relative(found[0]), text) if self.image else text

    def _relative(self, path: str) -> str:
        place = self.at(path)
        if place is None or not self._ours(path, place):
            return path
        made = posixpath.relpath(path, self.workdir)
        return f"{made}/" if path.endswith("/") and made != "." else made

    def _ours(self, path: str, place: Path) -> bool:
        # Below the root of the image there may be anything; what is not of the repository is the machine's.
        owned = self.top if self.top != "/" else self.workdir
        return (owned != "/" and _below(posixpath.normpath(path), owned)) or (
            place != self.app and os.path.lexists(place)
        )


def _below(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


class Found(Struct, frozen=True):
    """A RUN, and the files of its stage as they were then."""

    running: Running
    root: Path


class Note(Struct, frozen=True, order=True):
    """What is to be said of a line of the Dockerfile."""

    line: int
    text: str


class Laid(Struct, frozen=True, kw_only=True):
    layout: Layout
    runs: tuple[Found, ...]
    notes: tuple[Note, ...]


def lay_out(recipe: Recipe, context: Path, ignore: Ignore, scratch: Path) -> Laid:
    """Does the deeds of every stage; each RUN comes back to be judged, with the place where its files are."""
    runs: list[Found] = []
    notes: list[Note] = []
    for stage in recipe.stages:
        _Laying(stage, context, ignore, scratch, notes, runs).all()
    wanted = recipe.wanted
    layout = _cut(scratch / str(wanted.index), wanted.config.workdir)
    return Laid(layout=layout, runs=tuple(runs), notes=tuple(notes))


def _cut(root: Path, workdir: str) -> Layout:
    """Of the whole image only what is needed: from the folder down in which all files are."""
    (root / workdir.lstrip("/")).mkdir(parents=True, exist_ok=True)
    app, ahead, top = root, [part for part in workdir.split("/") if part], "/"
    while (
        ahead and [entry.name for entry in app.iterdir()] == [ahead[0]] and not (app / ahead[0]).is_symlink()
    ):
        top = posixpath.join(top, ahead[0])
        app /= ahead.pop(0)
    return Layout(app=app, top=top, workdir=workdir, image=True)


class _Laying:
    def __init__(
        self,
        stage: Cooked,
        context: Path,
        ignore: Ignore,
        scratch: Path,
        notes: list[Note],
        runs: list[Found],
    ) -> None:
        self.stage = stage
        self.context = context
        self.ignore = ignore
        self.scratch = scratch
        self.root = scratch / str(stage.index)
        self.line = max((deed.line for deed in stage.deeds), default=1)
        self.notes = notes
        self.runs = runs

    def all(self) -> None:
        self.root.mkdir(parents=True)
        if self.stage.base is not None:
            self._merge(self.scratch / str(self.stage.base), self.root, 0, Ignore())
        for deed in self.stage.deeds:
            match deed:
                case Copying():
                    self._copy(deed)
                case Running():
                    self.runs.append(Found(deed, self.root))
                case Passed(why=why):
                    self._note(deed, f"not executed, {why}.")
        # A link may lead elsewhere from its new place.
        tree.without_ways_out(self.root, lambda said: self.notes.append(Note(self.line, said)))

    def _note(self, deed: Copying | Passed, text: str) -> None:
        self.notes.append(Note(deed.line, f"{deed.shown}: {text}"))

    def _copy(self, deed: Copying) -> None:
        here = self.context if deed.stage is None else self.scratch / str(deed.stage)
        ignore = self.ignore if deed.stage is None else Ignore()
        if deed.excluded:
            ignore = Ignore((*ignore.patterns, *ignoring("\n".join(deed.excluded)).patterns))
        found = [path for source in deed.sources for path in self._sources(deed, here, ignore, source)]
        into = deed.to.endswith("/") or len(found) + len(deed.texts) > 1 or deed.parents
        for path in found:
            self._put(deed, here, ignore, path, into=into)
        for name, content in deed.texts:
            self._write(deed, self._target(deed, name, into=into), content)

    def _sources(self, deed: Copying, here: Path, ignore: Ignore, source: str) -> list[Path]:
        parts = [part for part in posixpath.normpath("/" + source).split("/") if part]
        found = [path for path in _matching(here, parts) if path == here or not ignore(_relative(here, path))]
        if not found and deed.stage is not None:
            self._note(
                deed, f"not executed, {source} would be made by what is not executed of another stage."
            )
        elif not found:
            raise BuildError(
                f"Dockerfile line {deed.line}: {source} is not in the folder that is deployed, or "
                ".dockerignore keeps it out."
            )
        return found

    def _put(self, deed: Copying, here: Path, ignore: Ignore, path: Path, *, into: bool) -> None:
        if path.is_dir() and not deed.parents:
            target = self._folder(deed, deed.to)
            self._merge(path, target, deed.line, ignore, here)
        elif path.is_dir():
            self._merge(
                path, self._folder(deed, f"{deed.to}/{_relative(here, path)}"), deed.line, ignore, here
            )
        else:
            name = str(_relative(here, path)) if deed.parents else path.name
            if _ARCHIVE.search(path.name) and deed.shown.upper().startswith("ADD"):
                self._note(deed, f"{path.name} is copied, not unpacked.")
            target = self._target(deed, name, into=into)
            tree.place(path, target, own=deed.mode is not None)
            if deed.mode is not None and not target.is_symlink():
                target.chmod(deed.mode)

    def _write(self, deed: Copying, target: Path, content: str) -> None:
        if os.path.lexists(target):
            target.unlink()
        target.write_text(content)
        target.chmod(deed.mode or 0o644)

    def _target(self, deed: Copying, name: str, *, into: bool) -> Path:
        whole = posixpath.normpath(deed.to)
        folder = self.root / whole.lstrip("/")
        if into or (folder.is_dir() and not folder.is_symlink()):
            inner = posixpath.join(whole, name)
            target = self._folder(deed, posixpath.dirname(inner)) / posixpath.basename(inner)
        else:
            target = self._folder(deed, posixpath.dirname(whole)) / posixpath.basename(whole)
        if target.is_dir() and not target.is_symlink():
            raise BuildError(f"Dockerfile line {deed.line}: {name} cannot be copied over a folder.")
        return target

    def _folder(self, deed: Copying, path: str) -> Path:
        """A folder of the image; never by way of a link, which may lead anywhere."""
        folder = self.root
        for part in PurePosixPath(posixpath.normpath("/" + path.lstrip("/"))).parts[1:]:
            folder /= part
            if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                raise BuildError(
                    f"Dockerfile line {deed.line}: it copies to {path}, and {part} is not a folder."
                )
            folder.mkdir(exist_ok=True)
        return folder

    def _merge(self, source: Path, target: Path, line: int, ignore: Ignore, here: Path | None = None) -> None:
        here = source if here is None else here
        target.mkdir(exist_ok=True)
        for entry in list(os.scandir(source)):
            path, to = Path(entry.path), target / entry.name
            ignored = bool(ignore.patterns) and ignore(_relative(here, path))
            if entry.is_dir(follow_symlinks=False):
                if ignored and ignore.prunes:
                    continue
                if to.is_symlink() or (to.exists() and not to.is_dir()):
                    raise BuildError(
                        f"Dockerfile line {line}: {entry.name} is a folder, and a file is there already."
                    )
                self._merge(path, to, line, ignore, here)
                if ignored and not any(to.iterdir()):
                    to.rmdir()
            elif not ignored:
                if to.is_dir() and not to.is_symlink():
                    raise BuildError(
                        f"Dockerfile line {line}: {entry.name} is a file, and a folder is there already."
                    )
                tree.place(path, to)


def _matching(here: Path, parts: Iterable[str]) -> list[Path]:
    """Paths that these patterns fit, part by part; links are followed as long as they stay inside."""
    found = [here]
    for part in parts:
        ahead: list[Path] = []
        for folder in found:
            if not folder.is_dir():
                continue
            if any(sign in part for sign in "*?[\\"):
                ahead += sorted(path for path in folder.iterdir() if fits(path.name, part))
            elif os.path.lexists(folder / part):
                ahead.append(folder / part)
        found = [path for path in ahead if tree.inside(here, path.parent)]
    return [path for path in found if (path.is_symlink() and not path.is_dir()) or tree.inside(here, path)]


def _relative(here: Path, path: Path) -> PurePosixPath:
    return PurePosixPath(path.relative_to(here))


_ARCHIVE = re.compile(r"\.(tar|tgz|tar\.gz|tar\.bz2|tar\.xz)\Z")
