"""The process that parses and compares large schemas, one task after the other (``workers`` asks it).

A question is a pickled function with its arguments, the answer its pickled result; both sides are this
program. Invariant: nothing is kept between two tasks, so that it may be ended at any time.
"""

import pickle
import sys

from moldau.registry import parsing
from moldau.schemas.worker_process import serve

#: Trees of schemas are pickled with a few levels of recursion for each of theirs.
_PICKLING_LIMIT = 20_000


def answer(question: bytes) -> bytes:
    function, arguments = pickle.loads(question)
    assert function.__module__ == parsing.__name__, function
    found = function(*arguments)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(_PICKLING_LIMIT)
    try:
        return pickle.dumps(found, pickle.HIGHEST_PROTOCOL)
    finally:
        sys.setrecursionlimit(limit)


if __name__ == "__main__":
    serve(answer)
