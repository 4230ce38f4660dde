"""Schemas in an order in which a registry takes them."""

from moldau.client.registry.transfer import context_of, in_order


def test_contexts():
    assert context_of(":.ctx:a") == ":.ctx:"
    assert context_of("a") == context_of(":a:b") == ""


def test_what_is_referred_to_comes_first():
    def row(subject, schema_id, *references):
        named = [{"name": each, "subject": each, "version": 1} for each in references]
        return {"subject": subject, "version": 1, "id": schema_id, "references": named}

    rows = [row("a", 1, "c"), row("b", 2), row("c", 3, "b"), row("d", 4, "gone")]
    assert [each["subject"] for each in in_order(rows)].index("c") > 0
    names = [each["subject"] for each in in_order(rows)]
    assert names.index("b") < names.index("c") < names.index("a")
    inside = [row(":.x:a", 1, "b"), row(":.x:b", 2)]
    assert [each["subject"] for each in in_order(inside)] == [":.x:b", ":.x:a"]
    circle = [row("a", 1, "b"), row("b", 2, "a")]
    assert [each["subject"] for each in in_order(circle)] == ["a", "b"]
