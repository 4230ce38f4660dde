"""Names of subjects: ``name`` in the default context, ``:.context:name`` in another one.

Invariant: pure. One subject has one name: the default context is never written out, so ``:.:name`` is
``name``.
"""

from moldau.registry.errors import invalid_subject

DEFAULT_CONTEXT = "."
#: As the beginning of a subject: those of every context.
ALL_CONTEXTS = ":*:"
_MAX_LENGTH = 10_000
#: Words that stand for something else where a subject is named.
_RESERVED = frozenset({"__GLOBAL", "__EMPTY"})


def split(subject: str) -> tuple[str, str]:
    """The context and the name in it."""
    if subject.startswith(":."):
        context, colon, name = subject[1:].partition(":")
        return (context, name) if colon else (context, "")
    return DEFAULT_CONTEXT, subject


def qualified(context: str, name: str) -> str:
    return name if context == DEFAULT_CONTEXT else f":{context}:{name}"


def normal(subject: str) -> str:
    """The one name of a subject, however it was written."""
    return qualified(*split(subject))


def within(parent: str, subject: str) -> str:
    """The subject that a schema of ``parent`` means: in the same context, unless it names one."""
    if subject.startswith(":."):
        return normal(subject)
    return qualified(split(parent)[0], subject)


def context_name(text: str) -> str:
    """A context as people write it: ``ctx``, ``.ctx`` or ``:.ctx:``."""
    name = text.strip(":")
    return name if name.startswith(".") else f".{name}"


def check(subject: str) -> str:
    """The normal form of a subject that something is to be stored under; 42208 when it is none."""
    _, name = split(subject)
    bad = not name or name in _RESERVED or len(subject) > _MAX_LENGTH
    if bad or not all(c.isprintable() for c in subject):
        raise invalid_subject(subject)
    return normal(subject)
