"""Options of ``format("moldau")`` as Python and SQL write them: ``value_format`` for ``value.format``.

Law: a name is looked up in the source's own table; what is not in it is handed on, so that the source
refuses it with its own words and the nearest name.
"""

from collections.abc import Mapping

from moldau.pipelines.definitions import texts
from moldau.spark.options import OPTIONS

_BY_LETTERS = {"".join(c for c in option.name.lower() if c.isalnum()): option.name for option in OPTIONS}


def option_name(written: str) -> str:
    """``starting_offsets`` is startingOffsets, ``kafka_compression_type`` is kafka.compression.type."""
    letters = "".join(c for c in written.lower() if c.isalnum())
    return _BY_LETTERS.get(letters, written.replace("_", "."))


def source_options(written: Mapping[str, object]) -> dict[str, str]:
    """Options with the names that the source knows."""
    return {option_name(name): value for name, value in texts(written).items()}
