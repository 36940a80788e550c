"""The requests to a Windlass that is killed meanwhile. Together the scenes reach every failpoint."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from tests.faults.house import House

HTTP = {"internal_port": 8080, "protocol": "HTTP", "publicly_accessible": True}
STORAGE = {"size": 1, "type": "FAST_SSD", "mount_point": "/app/data"}


class Street:
    """The services of a house and the actions on them. Each action may be the last."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.seen = 0

    async def settle(self) -> None:
        """One service of each kind, all of which run but the one that never can."""
        house = self.house
        await house.make_environment()
        self.web = await house.application("serves", ports=[HTTP], release_command="echo migrated")
        self.pair = await house.application("sleeps", min_running_instances=2, max_running_instances=3)
        self.store = await house.application("frail", ports=[HTTP], storage=[STORAGE])
        self.deaf = await house.application("deaf", ports=[HTTP])
        self.empty = await house.application("nothing")
        self.site = await house.application("page")
        self.follower = await house.application("page", auto_deploy=True)
        self.folder = await house.application("uploaded", source="UPLOAD", git_repository=None)
        self.task = await house.task("echo begun; sleep 2.2")
        self.migration = await job(house, "echo begun; sleep 2.2", "on_start")
        self.endless = await job(house, "sleep 1000", "on_start", max_duration_seconds=1)
        self.nightly = await job(house, "sleep 0.1", "cronjob")
        for app in (self.web, self.pair, self.store, self.site, self.follower):
            await house.do(app, "deploy")
        await self.upload()
        await house.call("POST", f"/job/{self.nightly}/deploy")
        await house.converges()

    async def release(self) -> None:
        self.house.code.push()
        for app in (self.web, self.pair, self.store):
            await self.house.do(app, "deploy")

    async def repeat(self) -> None:
        await self.house.do(self.pair, "restart-service")
        await self.house.do(self.web, "rollback")
        await self.house.do(self.web, "redeploy")

    async def stop(self) -> None:
        await self.house.do(self.web, "stop")
        await self.house.do(self.pair, "stop")
        await self.house.do(self.pair, "redeploy")
        await self.house.do(self.store, "stop")

    async def uninstall(self) -> None:
        await self.house.do(self.pair, "uninstall")
        await self.house.do(self.store, "uninstall")
        await self.house.do(self.store, "redeploy")

    async def begin(self) -> None:
        for app in (self.web, self.pair, self.store):
            await self.house.do(app, "redeploy")

    async def fail(self) -> None:
        await self.house.do(self.store, "deploy", git_commit_id=self.house.code.broken)
        await self.house.do(self.empty, "deploy")

    async def cancel(self) -> None:
        id = await self.house.do(self.deaf, "deploy")
        await self.house.reaches(self.deaf, id, "DEPLOYING")
        await self.house.call("POST", f"/application/{self.deaf}/cancelDeployment")

    async def run(self) -> None:
        """A run to its end, for longer than its worker waits for it."""
        answer = await self.house.call("POST", f"/task/{self.task}/deploy")
        assert answer["action"] == "RUN", answer

    async def migrate(self) -> None:
        """A run of a job, for longer than its worker waits for it, and one that takes too long."""
        await self.house.call("POST", f"/job/{self.migration}/deploy")
        await self.house.call("POST", f"/job/{self.endless}/deploy")

    async def give_up_migration(self) -> None:
        self.seen = len(self.house.points)
        await self.house.call("POST", f"/job/{self.migration}/deploy")
        await self.house.comes_to("run begun", self.seen)
        await self.house.call("POST", f"/job/{self.migration}/cancelDeployment")

    async def come_due(self) -> None:
        """The timetable of a job, while no server runs."""
        self.seen = len(self.house.points)
        await self.house.books.make_due(self.nightly)

    async def started(self) -> None:
        await self.house.comes_to("due runs started", self.seen)

    async def run_in_build(self) -> None:
        """A command in the build of an application that goes on meanwhile."""
        answer = await self.house.call("POST", f"/application/{self.web}/run", {"command": ["sleep", "2.2"]})
        assert answer["action"] == "RUN", answer

    async def publish(self) -> None:
        self.house.code.push()
        id = await self.house.do(self.site, "deploy")
        await self.house.reaches(self.site, id)
        await self.house.do(self.site, "rollback")

    async def upload(self) -> None:
        id = await self.house.upload(self.folder, self.house.code.folder())
        await self.house.do(self.folder, "deploy", upload_id=id)

    async def calm(self) -> None:
        """Cancels the deployment that an interrupted scene should have cancelled."""
        await self.house.call("POST", f"/application/{self.deaf}/cancelDeployment")

    async def delete(self) -> None:
        app = await self.house.application("sleeps", storage=[STORAGE])
        await self.house.reaches(app, await self.house.do(app, "deploy"))
        await self.house.call("DELETE", f"/application/{app}")

    async def nothing(self) -> None:
        """Does nothing: the preparation alone leads to the point."""

    async def woken(self) -> None:
        """By a request, once it has no instance any more."""
        await self.house.comes_to("asleep", self.seen)
        await self.house.knock(self.web)
        await self.house.comes_to("woken", self.seen)

    async def swept(self) -> None:
        await self.house.comes_to("swept", self.seen)

    async def followed(self) -> None:
        await self.house.comes_to("about to deploy a new commit", self.seen)

    async def forgotten(self) -> None:
        await self.house.comes_to("logs forgotten", self.seen)

    async def delete_open_uploads(self) -> None:
        """Each death in the middle of one leaves an open upload, and an application has few of them."""
        top = f"/application/{self.folder}/upload"
        for upload in (await self.house.call("GET", top))["results"]:
            if upload["state"] == "OPEN":
                told = self.house.uploads.pop(f"{top}/{upload['id']}", upload)
                assert upload["offset"] >= told["offset"], "acknowledged bytes are lost"
                await self.house.call("DELETE", f"{top}/{upload['id']}")

    async def runs(self) -> None:
        """As before the first scene, whatever the last one was cut short of."""
        await self.delete_open_uploads()
        for app in (self.web, self.pair, self.store):
            status = await self.house.call("GET", f"/application/{app}/status")
            assert "state" in status, status
            if status["state"] != "RUNNING":
                await self.house.do(app, "redeploy")
        await self.house.converges()

    # Between two lives

    async def grow(self) -> None:
        await self.house.books.scale(self.pair, 3)

    async def shrink(self) -> None:
        await self.grow()
        await self.house.start()
        await self.house.converges()
        await self.house.kill()
        await self.house.books.scale(self.pair, 2)

    async def fall_asleep(self) -> None:
        self.seen = len(self.house.points)
        await self.house.books.put_to_sleep(self.web)

    async def tidy(self) -> None:
        self.seen = len(self.house.points)
        await self.house.books.ask_to_tidy()

    async def commit(self) -> None:
        """A new commit, at which the next Windlass looks at once."""
        self.house.code.push()
        self.seen = len(self.house.points)
        await self.house.books.ask_to_look_at_branch(self.follower)

    async def haunt(self) -> None:
        """Work for a service that is no more, as who lost it may have asked for."""
        self.seen = len(self.house.points)
        await self.house.books.ask_to_reconcile_deleted("33333333-aaaa-4aaa-8aaa-000000000003")


async def job(house: House, script: str, event: str, **fields: Any) -> str:
    """A job that runs a script: at an event, or by a timetable that is due in a month at the earliest."""
    command = {"entrypoint": "/bin/sh", "arguments": ["-c", script]}
    when = {"scheduled_at": "0 0 1 * *"} if event == "cronjob" else {}
    repository = {"url": house.code.url, "branch": "main", "root_path": "/sleeps"}
    body = {
        "name": script.replace(" ", "-"),
        "source": {"docker": {"git_repository": repository}},
        "schedule": {event: command | when},
        "cpu": 100,
        "memory": 128,
    }
    made = await house.call("POST", f"/environment/{house.environment}/job", body | fields)
    assert "id" in made, made
    return str(made["id"])


class Scene(Struct, frozen=True):
    play: Callable[[Street], Awaitable[None]]
    before: Callable[[Street], Awaitable[None]] | None = None
    """Changes that are made while no server runs."""


SCENES = {
    "release": Scene(Street.release),
    "repeat": Scene(Street.repeat),
    "fail": Scene(Street.fail),
    "cancel": Scene(Street.cancel),
    "delete": Scene(Street.delete),
    "run": Scene(Street.run),
    "migrate": Scene(Street.migrate),
    "give up a migration": Scene(Street.give_up_migration),
    "come due": Scene(Street.started, Street.come_due),
    "run in a build": Scene(Street.run_in_build),
    "publish": Scene(Street.publish),
    "upload": Scene(Street.upload),
    "grow": Scene(Street.nothing, Street.grow),
    "shrink": Scene(Street.nothing, Street.shrink),
    "sleep": Scene(Street.woken, Street.fall_asleep),
    "stop": Scene(Street.stop),
    "begin": Scene(Street.begin),
    "uninstall": Scene(Street.uninstall),
    "begin again": Scene(Street.begin),
    "tidy": Scene(Street.swept, Street.tidy),
    "follow": Scene(Street.followed, Street.commit),
    "haunt": Scene(Street.forgotten, Street.haunt),
}
"""In an order in which each finds what it needs."""
