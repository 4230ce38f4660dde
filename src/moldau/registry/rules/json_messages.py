"""One line for every breaking difference between JSON Schemas: its rule, its path, and a sentence."""

from moldau.registry.rules.differences import Difference

#: endings of rule names -> the sentence; the first that fits is taken
_SENTENCES = (
    (
        "_ADDED_TO_OPEN_CONTENT_MODEL",
        "the {new} schema names '{path}', which the {old} schema with its open content model left free",
    ),
    (
        "_ADDED_TO_UNOPEN_CONTENT_MODEL",
        "the {new} schema requires '{path}', which the {old} schema with its unopen content model does "
        "not have",
    ),
    (
        "_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "the {new} schema has a closed content model and lacks '{path}', which is present in the {old} "
        "schema",
    ),
    (
        "NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "'{path}' is in only one of the {new} and the {old} schema and does not fit the partially open "
        "content model of the other",
    ),
    ("PROPERTIES_REMOVED", "the {new} schema no longer allows what '{path}' allowed in the {old} schema"),
    ("ITEMS_REMOVED", "the {new} schema no longer allows what '{path}' allowed in the {old} schema"),
    ("_ADDED", "the keyword at '{path}' in the {new} schema is not present in the {old} schema"),
    ("_INCREASED", "the value at '{path}' in the {new} schema is more than in the {old} schema"),
    ("_EXPANDED", "the value at '{path}' in the {new} schema is more than in the {old} schema"),
    ("_DECREASED", "the value at '{path}' in the {new} schema is less than in the {old} schema"),
    ("TYPE_NARROWED", "the type at '{path}' allows less in the {new} schema than in the {old} schema"),
    ("_NARROWED", "'{path}' allows less in the {new} schema than in the {old} schema"),
    ("_EXTENDED", "'{path}' asks for more in the {new} schema than in the {old} schema"),
    ("_TOO_COMPLEX", "the {new} and the {old} schema take too many steps to compare"),
    ("", "'{path}' is different in the {new} and the {old} schema"),
)


def message(difference: Difference, new: str, old: str) -> str:
    sentence = next(text for ending, text in _SENTENCES if difference.kind.endswith(ending))
    description = sentence.format(path=difference.path, new=new, old=old)
    return f'{{errorType:"{difference.kind}", description:"{description[0].upper()}{description[1:]}"}}'
