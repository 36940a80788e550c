"""Renders the guestbook's page, which loads nothing from other servers."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from string import Template

from .book import Entry

_STYLE = """
:root { color-scheme: light dark; --back: #f6f5f1; --card: #fff; --text: #20241f; --soft: #667066;
  --line: #e2e0d8;
  --mark: #0b6e4f; --on-mark: #fff }
@media (prefers-color-scheme: dark) { :root { --back: #151815; --card: #1e231f; --text: #e8ebe6;
  --soft: #9aa69b;
  --line: #313831; --mark: #5ad1a4; --on-mark: #0d1f17 } }
* { box-sizing: border-box }
body { margin: 0; background: var(--back); color: var(--text); font: 17px/1.55 system-ui, sans-serif }
main { max-width: 42rem; margin: 0 auto; padding: 3.5rem 1.25rem 4rem }
h1 { font-size: 2.1rem; line-height: 1.15; margin: 0 0 .6rem; letter-spacing: -.02em }
h2 { font-size: 1.05rem; margin: 0 0 .8rem }
p { margin: 0 0 1rem }
a { color: var(--mark) }
.soft { color: var(--soft) }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 14px; padding: 1.4rem;
  margin-top: 1.4rem }
.count { font-size: 3.4rem; line-height: 1; font-weight: 700; color: var(--mark);
  font-variant-numeric: tabular-nums }
form { display: grid; gap: .7rem }
label { display: grid; gap: .25rem; font-size: .9rem }
input, button { font: inherit; color: inherit; padding: .6rem .8rem; border-radius: 9px;
  border: 1px solid var(--line); background: var(--back) }
button { justify-self: start; background: var(--mark); color: var(--on-mark); border: 0; font-weight: 600;
  cursor: pointer }
:focus-visible { outline: 3px solid var(--mark); outline-offset: 2px }
ul { list-style: none; margin: 1.2rem 0 0; padding: 0 }
li { border-top: 1px solid var(--line); padding: .7rem 0; overflow-wrap: anywhere }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1.2rem; margin: 0 }
dt { color: var(--soft) }
dd { margin: 0; overflow-wrap: anywhere }
"""

_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Guestbook, deployed by Windlass</title>
<style>$style</style>
</head>
<body>
<main>
<h1>It runs.</h1>
<p class="soft">This application was fetched from git, built and started by Windlass, beside a PostgreSQL
database that Windlass runs for it.</p>
$kept
<section class="card" aria-labelledby="facts">
<h2 id="facts">What answered</h2>
<dl>$facts</dl>
</section>
<section class="card" aria-labelledby="next">
<h2 id="next">What now</h2>
<p>See what it says: <code>windlass application log guestbook</code><br>
Stop the demonstration: <code>windlass demo --remove</code></p>
$links
</section>
</main>
</body>
</html>
""")

_BOOK = Template("""<section class="card" aria-labelledby="visits">
<h2 id="visits">Visits, counted in the database</h2>
<div class="count">$count</div>
</section>
<section class="card" aria-labelledby="sign">
<h2 id="sign">Sign the guestbook</h2>
<form method="post" action="./sign">
<label>Name <input name="name" required maxlength="40" autocomplete="name"></label>
<label>Message <input name="message" required maxlength="200"></label>
<button>Sign</button>
</form>
<ul>$entries</ul>
</section>""")

_NO_DATABASE = Template("""<section class="card" aria-labelledby="none">
<h2 id="none">Without a database</h2>
<p>$why</p>
</section>""")


def page(kept_id: str, facts: Sequence[tuple[str, str]], docs: str) -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    safe = docs if docs.startswith(("https://", "http://")) else ""
    links = f'<p><a href="{escape(safe)}">The reference of the API</a></p>' if safe else ""
    return _PAGE.substitute(style=_STYLE, kept=kept_id, facts=rows, links=links)


def book(count: int, entries: Sequence[Entry]) -> str:
    shown = "".join(
        f'<li><strong>{escape(entry.name)}</strong> <span class="soft">{escape(entry.at)} UTC</span><br>'
        f"{escape(entry.message)}</li>"
        for entry in entries
    )
    return _BOOK.substitute(count=f"{count:,}", entries=shown)


def nothing(reason: str) -> str:
    return _NO_DATABASE.substitute(why=escape(reason))
