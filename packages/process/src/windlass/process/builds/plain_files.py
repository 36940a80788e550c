"""Takes the files of a commit as an artifact, as they are: nothing is built, and nothing of them is run."""

from __future__ import annotations

from windlass.builders.builder import Order, Say
from windlass.engines.workload import Artifact
from windlass.process.builds import tree
from windlass.process.builds.artifacts import ArtifactStore
from windlass.process.builds.layout import folder_of


def take_files(store: ArtifactStore, order: Order, say: Say) -> Artifact:
    """The whole repository is in the artifact, which works in the folder `root` of it."""
    tree.remove_escaping_links(order.source, say)
    folder_of(order)
    with store.making() as folder_of_build:
        artifact = folder_of_build / "artifact"
        artifact.mkdir(mode=0o700)
        tree.move(order.source, artifact / "app")
        final = store.at(order.key)
        workdir = "" if order.root == "." else order.root
        made = Artifact(kind="native", ref=str(final), key=order.key, workdir=workdir)
        store.complete(artifact, made)
        return store.put(artifact, made)
