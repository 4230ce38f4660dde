"""What a question to the authorizer costs: ``python -m benchmarks.acl_check``.

Claim: at most a microsecond for a question that was asked before, with ten thousand ACLs; and tens of
microseconds for one that was not.
"""

import timeit

from moldau.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from moldau.security.authorizer import Authorizer

_ACLS = 10_000
_REPEATS = 5
_CALLS = 100_000


def authorizer(count: int = _ACLS) -> Authorizer:
    """Every third ACL is about a prefix; a hundred users share them."""
    return Authorizer(
        Acl(
            ResourceType.TOPIC,
            f"topic-{number}",
            PatternType.LITERAL if number % 3 else PatternType.PREFIXED,
            f"User:u{number % 100}",
            "*",
            Operation.READ,
            Permission.ALLOW,
        )
        for number in range(count)
    )


def nanoseconds() -> dict[str, float]:
    known = authorizer()
    question = ("User:u7", "10.0.0.1", Operation.READ, ResourceType.TOPIC, "topic-107")
    known.may(*question)
    return {
        "asked before": min(timeit.repeat(lambda: known.may(*question), number=_CALLS, repeat=_REPEATS))
        / _CALLS
        * 1e9,
        "asked for the first time": min(
            timeit.repeat(lambda: known.decide(*question), number=_CALLS // 100, repeat=_REPEATS)
        )
        / (_CALLS // 100)
        * 1e9,
    }


def main() -> None:
    for what, cost in nanoseconds().items():
        print(f"{what:>26}: {cost:8.0f} ns")


if __name__ == "__main__":
    main()
