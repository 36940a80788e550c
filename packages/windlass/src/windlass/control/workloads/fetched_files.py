"""Makes an artifact of a repository's files at a commit, without building them."""

from __future__ import annotations

import hashlib

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.builders.builder import FILES_BUILDER, BuildSettings, Order
from windlass.control.context.context import Context
from windlass.control.records.deployments import name_of, particulars
from windlass.control.workloads.build_input import BuildInput
from windlass.control.workloads.builds import cache_secret_of, commit_record
from windlass.control.workloads.repositories import source_of
from windlass.control.workloads.work_folders import work_folder
from windlass.core.deploy.progress import BuildResult, BuiltArtifact


class ImageForFiles(Struct, frozen=True, kw_only=True):
    """The base image to which the files are added."""

    ref: str
    chosen_in: str
    """Where the image is chosen, for messages, such as `the setting x_image`."""
    mounts: tuple[str, ...] = ()
    """Folders of volumes, which the image's user must be able to write to."""


async def fetch_files(
    ctx: Context, build_input: BuildInput, base: ImageForFiles | None = None, commit: str | None = None
) -> BuiltArtifact:
    """Returns the files of a deployment's commit as an artifact; an image if there is a `base`.

    Without a commit, the newest one of the branch is used. Raises BuildError or GitError.
    """
    service, deployment = build_input.service, build_input.deployment
    asked = commit or particulars(deployment).git_commit_id
    source = await source_of(ctx, ctx.store.reads, service, asked)
    if source.token:
        ctx.logs.masks.add(deployment.id, [source.token])
    branch = source.branch
    if asked is None:
        build_input.say(f"Looking for the newest commit of {branch or 'the default branch'} of {source.url}")
        branch, newest = await ctx.git.head(source)
        source = replace(source, commit=newest)
    root = source.root_path.strip("/") or "."
    place = await ctx.places.of(service.id)
    async with work_folder(ctx, deployment.id) as folder:
        build_input.say(f"Fetching commit {(source.commit or '')[:12]} of {source.url}")
        await ctx.point("about to fetch")
        # The whole repository is fetched, because modules may refer to neighbouring folders.
        fetched = await ctx.git.fetch(replace(source, root_path="/"), folder)
        await ctx.point("fetched")
        record = commit_record(fetched)
        build_input.fetched.commit, build_input.fetched.branch = record, branch
        inputs = [source.url, root, fetched.id, *([base.ref] if base else [])]
        key = hashlib.sha256(msgspec.json.encode(inputs)).hexdigest()[:40]
        artifact = await place.builder.find(service.id, key)
        if artifact is None:
            order = Order(
                service=service.id,
                org=service.org,
                environment=service.parent,
                name=name_of(service),
                deployment=deployment.id,
                key=key,
                commit=fetched.id,
                source=folder,
                root=root,
                settings=_settings(base),
                cache_secret=cache_secret_of(ctx, service.id),
                paused=build_input.paused,
            )
            artifact = await place.builder.build(order, build_input.say)
    return BuiltArtifact(BuildResult(artifact), record, branch)


def _settings(base: ImageForFiles | None) -> BuildSettings:
    if base is None:
        return BuildSettings(builder=FILES_BUILDER)
    return BuildSettings(
        builder=FILES_BUILDER, base=base.ref, base_chosen_in=base.chosen_in, mounts=base.mounts
    )
