"""The sentences about differences between JSON Schemas."""

import pytest

from moldau.registry.rules.differences import Difference
from moldau.registry.rules.json_messages import message


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", "open content model left free"),
        ("MAX_LENGTH_ADDED", "keyword at '/p' in the new schema is not present in the old schema"),
        ("MINIMUM_INCREASED", "more than in the old schema"),
        ("TYPE_NARROWED", "allows less in the new schema"),
        ("SOMETHING_ELSE", "'/p' is different in the new and the old schema"),
    ],
)
def test_a_sentence_for_every_kind(kind: str, words: str) -> None:
    text = message(Difference(kind, "/p"), "new", "old")
    assert text.startswith(f'{{errorType:"{kind}", description:"')
    assert words in text
    assert text.endswith('"}')
