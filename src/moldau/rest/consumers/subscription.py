"""What an instance subscribes to: topics by name, or by a pattern.

Pure. A pattern is one that takes linear time (RE2's), because it comes from a stranger; it matches whole
names, as Java's does.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from moldau.base.re2.regular_expressions import BadExpression, compile_expression
from moldau.rest import problems

_MAX_PATTERN = 1_000
#: Of a legal name; others are refused before a whole group meets them.
_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class Subscription:
    names: tuple[str, ...] = ()
    pattern: str | None = None

    def topics(self) -> Sequence[str] | Callable[[Iterable[str]], Iterable[str]]:
        """As a group's member wants them."""
        if self.pattern is None:
            return self.names
        program = compile_expression(self.pattern)
        return lambda names: [name for name in names if program.matches(name)]


def read_subscription(body: dict[str, object]) -> Subscription:
    """``topics`` or ``topic_pattern``, and not both."""
    topics, pattern = body.get("topics"), body.get("topic_pattern")
    if topics is not None and pattern is not None:
        raise problems.illegal_state("Subscription to topics, partitions and pattern are mutually exclusive")
    if pattern is not None:
        if not isinstance(pattern, str) or not pattern or len(pattern) > _MAX_PATTERN:
            raise problems.unprocessable(f"topic_pattern is a text of 1 to {_MAX_PATTERN} characters")
        try:
            compile_expression(pattern)
        except BadExpression as error:
            raise problems.unprocessable(f"topic_pattern is no regular expression: {error}") from None
        return Subscription(pattern=pattern)
    if not isinstance(topics, list) or not all(isinstance(each, str) and each for each in topics):
        raise problems.unprocessable("topics is a list of names")
    if not all(map(_LEGAL.fullmatch, topics)):
        raise problems.unprocessable("topics has a name that no topic can have")
    if not topics:
        raise problems.unprocessable("topics is empty: name one, or unsubscribe with DELETE")
    return Subscription(names=tuple(sorted(set(topics))))
