"""No text of a program or of an address hides the rest of a page, or is shown as another one."""

from __future__ import annotations

import json
from typing import Final

import pytest
from playwright.sync_api import expect

from tests.browser.servers import Repository, Server
from tests.marks import nightly

pytestmark = pytest.mark.slow

WITHOUT_TEXT: Final = {"toString": None, "valueOf": None}
"""An object that JavaScript cannot make a text of."""
ORDER: Final = "run \u202e)moc.elpmaxe//:ptth lruc( \u2066# harmless\u2069"
"""A line that is shown as another one than it is, where its signs are obeyed."""
LINES: Final = [
    json.dumps({"message": WITHOUT_TEXT}),
    json.dumps({"level": [WITHOUT_TEXT], "msg": None}),
    json.dumps({"level": {"__proto__": 1}, "event": [[]]}),
    '{"__proto__": {"message": 1}, "constructor": 2, "message": "with a prototype"}',
    json.dumps({"message": ORDER}),
    ORDER,
]


def test_no_output_line_hides_other_lines_or_changes_text_direction(
    server: Server, new_page, watch, repository: Repository
) -> None:
    program = (repository.folder / "app.py").read_text()
    lines = "".join(f"print({line!a}, flush=True)\n" for line in ["the first", *LINES, "the last"])
    repository.commit({"app.py": lines + program}, "Says more")
    app = server.application(server.environment(project="Hostile"), repository, "hostile")
    server.deploy(app)
    page = new_page(f"/application/{app}/logs")
    log = page.get_by_role("log")
    expect(log).to_contain_text("the last")
    shown = log.inner_text()
    for text in ("the first", "toString", "with a prototype", r"\u202e)moc.elpmaxe//:ptth lruc("):
        assert text in shown
    assert not set("\u202e\u2066\u2069") & set(shown)
    page.get_by_role("searchbox").fill("lruc")
    expect(log.locator("mark").first).to_be_visible()
    assert "\u202e" not in log.inner_text()

    page.goto(f"{server.url}/console/application/{app}/terminal")
    page.get_by_role("button", name="Open a shell").click()
    terminal = page.get_by_role("log", name="Terminal")
    expect(terminal).to_contain_text("$")
    page.keyboard.type(r"printf '\342\200\256olleh\n'", delay=10)
    page.keyboard.press("Enter")
    expect(terminal).to_contain_text(r"\u202eolleh")


@pytest.mark.parametrize("name", ["constructor", *nightly("__proto__", "toString")])
def test_a_problem_code_named_like_an_object_prototype_property_shows_no_text(
    server: Server, new_page, name: str
) -> None:
    page = new_page(f"/?x#problem={name}", signed_in=False)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert page.locator("p.trouble").text_content() == ""
