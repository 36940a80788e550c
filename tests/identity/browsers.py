"""A browser, as far as signing in concerns it: it keeps cookies, and the key of the page."""

from __future__ import annotations

import re
from typing import Any

from tests.world import Answer, World


class Browser:
    def __init__(self, world: World) -> None:
        self._world = world
        self.cookies: dict[str, str] = {}
        self.key = ""

    def go_to(self, world: World) -> None:
        """Goes on with the same cookies where the server was started again."""
        self._world = world

    async def call(
        self, method: str, path: str, *args: Any, key: str | None = None, **options: Any
    ) -> Answer:
        """Sends a request as a page of the console does: with the cookies, and the key of the page."""
        sent = dict(options.pop("headers", {}))
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        key = self.key if key is None else key
        if key:
            sent["x-windlass-page-key"] = key
        answer = await self._world.call(method, path, *args, token=None, headers=sent, **options)
        self._keep(answer)
        return answer

    def _keep(self, answer: Answer) -> None:
        """Keeps the cookie of an answer; an empty one is forgotten."""
        for pair in re.findall(r"(\w[\w-]*=[^;]*); Path", answer.headers.get("set-cookie", "")):
            name, _, value = pair.partition("=")
            if value:
                self.cookies[name] = value
            else:
                self.cookies.pop(name, None)

    async def sign_in(self, token: str = "") -> Answer:
        """Signs in with a link that the token has made."""
        options = {"token": token} if token else {}
        link = await self._world.post("/account/signInLink", **options)
        assert link.status == 201, link
        return await self.open_link(link["url"])

    async def open_link(self, url: str) -> Answer:
        code = url.partition("#code=")[2]
        answer = await self.call("POST", "/account/browserSession", {"code": code})
        if answer.status == 201:
            self.key = answer["page_key"]
        return answer

    async def is_signed_in(self) -> bool:
        answer = await self.call("GET", "/account")
        assert answer.status in {200, 401, 403}, answer
        return answer.status == 200
