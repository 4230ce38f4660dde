"""What a worker holds for long is kept out of garbage collections.

Spark's daemon collects all garbage of a worker after each task and each plan. With Arrow, numba and pandas
loaded that is a tenth of a second every time, longer than a small micro-batch takes otherwise, and nothing of
it is garbage. What is there when a task begins has just come through such a collection: it is put aside.

Invariant: only for processes that Spark has started; a program of the user's is never touched.
"""

import gc

from moldau.spark.session.archives import know_archives


def keep_what_is_there() -> None:
    """At the beginning of a task or a plan, when what it needs is imported."""
    gc.freeze()
    know_archives()
