"""Notes about pulled images, and what is deleted with them."""

from __future__ import annotations

from typing import Any, cast

from tests.tables import rows
from windlass.docker.client import Docker
from windlass.docker.client.pulled_images import ImageUser, PulledImages

ID = f"sha256:{'abc123' * 10}abcd"


class Engine:
    """An engine with one image, which has all names."""

    def __init__(self) -> None:
        self.deleted: list[str] = []

    async def json(self, method: str, path: str) -> dict[str, Any]:
        return {"Id": ID, "RepoTags": []}

    async def raw(self, method: str, path: str) -> bytes:
        self.deleted.append(path)
        return b""


@rows(
    ("ref", "is_deleted"),
    [("shop.example/a:1", True), ("abc123", False), (ID, False), (ID.removeprefix("sha256:").upper(), False)],
)
async def test_an_image_is_never_deleted_by_its_id(tmp_path, ref, is_deleted):
    """A name of hexadecimal digits may be the id of an image of another organization."""
    engine = Engine()
    pulled = PulledImages(cast("Docker", engine), tmp_path)
    await pulled.note_pull(ImageUser("shop", "acme"), ref, ID)
    await pulled.discard("shop")
    assert engine.deleted == ([f"/images/{ref}"] if is_deleted else [])
    assert await pulled.services() == set()
