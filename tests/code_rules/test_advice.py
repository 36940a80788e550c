"""Each piece of advice finds its example, lets plain words pass, and is listed on its page."""

from __future__ import annotations

from tests.code_rules import advice
from tests.code_rules.sources import PAGES


def test_each_advice_finds_its_example_and_passes_plain_words():
    missed = [rule.name for rule in advice.ADVICE if not [*rule.find(rule.bad)]]
    wrong = [(rule.name, found) for rule in advice.ADVICE if (found := [*rule.find(rule.good)])]
    assert (missed, wrong) == ([], [])


def test_the_rules_page_lists_every_piece_of_advice():
    page = PAGES["docs/contributing-rules.md"]
    assert [rule.name for rule in advice.ADVICE if f"| {rule.name} |" not in page] == []


def test_advice_is_printed_with_file_and_line_and_fails_nothing(monkeypatch, capsys):
    rule = advice.ADVICE[0]._replace(files={"a.py": f"pass\n\n\n{advice.ADVICE[0].bad}"})
    monkeypatch.setattr(advice, "ADVICE", [rule])
    advice.main()
    assert capsys.readouterr().out.startswith("advice: a.py:6: docstring: 'Of all.'")
