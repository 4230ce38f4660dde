"""Writes docs/spark-options.md from the table of options: ``python docs/generate_spark_options.py``.

Invariant: the page says what ``format("moldau")`` takes, because both come from one table; a test fails
when it is old.
"""

from pathlib import Path

from moldau.spark.options import OPTIONS, REFUSED

PAGE = Path(__file__).parent / "spark-options.md"

_INTRODUCTION = """\
# Options of format("moldau")

Written by `docs/generate_spark_options.py` from `src/moldau/spark/options.py`; do not edit. Names are
compared without regard to case. An option that is not known is an error which suggests the nearest one. The
last column compares with Spark's own connector (`format("kafka")`).

| option | for | default | meaning | Spark's connector |
|---|---|---|---|---|
"""

_REFUSED = """
The connector's options that are not taken:

| option | why |
|---|---|
"""


def page() -> str:
    rows = "".join(
        f"| `{o.name}` | {o.applies} | {o.default or '–'} | {o.meaning} | {o.connector} |\n" for o in OPTIONS
    )
    refused = "".join(f"| `{name}` | {why} |\n" for name, why in REFUSED.items())
    return _INTRODUCTION + rows + _REFUSED + refused


if __name__ == "__main__":
    PAGE.write_text(page())
