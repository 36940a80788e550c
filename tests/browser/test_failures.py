"""The button beside a failure does what the first sentence of the failure says."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from windlass.engines.start_remedies import remedy_of

pytestmark = pytest.mark.slow

PORT = "Make shop listen on 0.0.0.0, at the port in the variable PORT: it listens on 127.0.0.1:3000 only"
SENTENCES = {
    PORT: "/application/x/settings?section=ports",
    remedy_of("", "shop", ["KeyError: 'API_KEY'"]): "/application/x/variables?add=API_KEY",
    remedy_of("", "shop", ["RuntimeError: SECRET_KEY is required"]): (
        "/application/x/variables?add=SECRET_KEY"
    ),
    "Give shop more `memory`: it has used all that it has": "/application/x/settings?section=general",
    "Set `ports[0].internal_port` to 3000: shop listens there": "/application/x/settings?section=ports",
    "Choose another root_path: the repository has no such folder": "/application/x/settings?section=general",
    "Create a database, such as main-db, and set the variable DB_URL with `windlass env set DB_URL={{DB}}`": (
        "/new?kind=database&environment=e&name=main-db"
    ),
    remedy_of("", "shop", ["KeyError: 'REDIS_URL'"]): "/new?kind=database&environment=e&name=main-db",
    # The page of the environment has first what needs attention.
    "Fix the database main-db, which comes first: it failed": "/environment/e",
    # Nothing here can be done with the settings, though it speaks of names, memory and folders.
    "Commit the file main.py: the name of the folder, the port and the memory are right": None,
}
_LINKS = """async ([base, sentences]) => {
  const { failure } = await import(base + '/js/pages/failure.js');
  return sentences.map((sentence) => {
    const service = { path: '/application/x', environment: 'e', name: 'shop', deployments: [] };
    const node = failure(sentence, service);
    const leads = node.querySelector('a .button.main')?.parentNode.getAttribute('href');
    return leads?.replace('/console', '') || null;
  });
}"""


def test_the_first_button_beside_a_failure_matches_the_first_sentence_of_the_message(
    new_page: Callable[..., Page],
) -> None:
    page = new_page("/")
    base = page.evaluate("document.querySelector('script').src.replace('/js/main.js', '')")
    assert page.evaluate(_LINKS, [base, list(SENTENCES)]) == list(SENTENCES.values())
