"""A preview with real parts: git itself, a build, a process, the gateway. Only the API of the git server is
a stand-in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import force_setattr

from tests.pushes.git_servers import TOKEN
from tests.pushes.pull_requests import GiteaWithPulls
from tests.pushes.pushing import make_environment, pushed_place, web_folder
from tests.repositories import serving
from tests.whole import page, until

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(300)]  # test_gitea keeps the same promise


async def test_a_pull_request_is_served_at_its_own_address_until_it_is_closed(tmp_path: Path):
    (tmp_path / "acme").mkdir()
    folder = web_folder(tmp_path / "acme" / "shop", "main")
    with serving(tmp_path) as git:
        server = GiteaWithPulls()
        server.host = f"127.0.0.1:{git.port}"
        server.api = f"http://{server.host}/api/v1"
        given: dict[str, Any] = {"outbound_allow": ("127.0.0.0/8",), "auto_deploy_seconds": 5}
        async with pushed_place(**given) as there, there.windlass() as windlass:
            force_setattr(windlass.installation.ctx, "out", server)
            live = await make_environment(windlass)
            org = (await windlass.call("GET", "/organization"))["id"]
            body = {"name": "g", "type": "GITHUB", "token": TOKEN, "git_api_url": server.api}
            token = (await windlass.call("POST", f"/organization/{org}/gitToken", body))["id"]
            repository = {"url": git.url("acme/shop"), "branch": "main", "git_token_id": token}
            ports = [{"internal_port": 8000, "publicly_accessible": True}]
            web = {"name": "web", "git_repository": repository, "ports": ports}
            await windlass.call("POST", f"/environment/{live}/application", web)
            rule = f"/environment/{live}/deploymentRule/current"
            await windlass.call("PUT", rule, {"auto_preview": True})

            async def preview() -> Any:
                found = await windlass.call("GET", f"/environment/{live}/preview")
                return found["results"][0] if found["results"] else {}

            folder.git("checkout", "--quiet", "-b", "colours")
            for text in ("red", "blue"):
                folder.write(text=text)
                newest = folder.commit(text)
                server.open(12, text, commit=newest)

                async def is_deployed(newest: str = newest) -> bool:
                    shown = await preview()
                    has_commit = shown.get("deployed_commit_id") == newest
                    return has_commit and shown["state"] == "RUNNING" and bool(shown["address"])

                await until(is_deployed)
                assert (await page((await preview())["address"])).text == text
            server.close_pull(12)

            async def is_gone() -> bool:
                project = (await windlass.call("GET", f"/environment/{live}"))["project"]["id"]
                left = await windlass.call("GET", f"/project/{project}/environment")
                return not await preview() and [one["id"] for one in left["results"]] == [live]

            await until(is_gone)
            assert len(server.comments[12]) == 1
