"""Deliveries of a megabyte, of which the sender has the secret, delay no others."""

from __future__ import annotations

from urllib.parse import urlencode

from hypothesis import given
from hypothesis import strategies as st

from tests.marks import examples
from windlass.base.foreign_json import payload_of_form
from windlass.registries.push_payloads import MAX_PUSHED_TAGS, read_image_delivery
from windlass.sources.git_servers.payloads import PushedBranch, read_pushes

FORM = {b"content-type": b"application/x-www-form-urlencoded"}


@examples(200)
@given(st.text(st.sampled_from('aé€=%+ &"{}[]_\n\r\t.3D~')))
def test_the_payload_of_a_form_is_decoded_as_browsers_encode_it(text: str):
    assert payload_of_form(urlencode({"other": "=", "payload": text}).encode()) == text.encode()


def test_a_form_without_payload_and_one_of_many_fields_have_none():
    assert payload_of_form(b"a=1&b=2") == payload_of_form(b"") == b""
    assert payload_of_form(b"a=1&" * 9 + b"payload=1") == b"1"
    assert payload_of_form(b"a=1&" * 10 + b"payload=1") == b""
    assert read_pushes(b"a=1&" * 20, is_form=True, is_whole=True) == [PushedBranch("", "")]


def test_few_of_very_many_tags_are_looked_at():
    """Negative control: the same tag is found if fewer are before it."""
    for before, found in ((10 * MAX_PUSHED_TAGS, 0), (10 * MAX_PUSHED_TAGS - 1, 1)):
        tags = ",".join(['"-"'] * before + ['"1.0"'])
        sent = f'{{"repository": "acme/shop", "updated_tags": [{tags}]}}'
        assert len(read_image_delivery({}, sent.encode()).tags) == found
        assert len(read_image_delivery(FORM, urlencode({"payload": sent}).encode()).tags) == found
