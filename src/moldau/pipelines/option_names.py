"""Options of ``format("moldau")`` as Python and SQL write them: ``value_format`` for ``value.format``.

Invariant: a name is looked up in the source's own table; what is not in it is handed on, so that the source
refuses it with its own words and the nearest name.
"""

from collections.abc import Mapping

from moldau.pipelines.definitions import texts
from moldau.spark.options import option_name


def source_options(written: Mapping[str, object]) -> dict[str, str]:
    """Options with the names that the source knows."""
    return {option_name(name): value for name, value in texts(written).items()}
