"""The page of the documentation: every program of it in Python can be built."""

import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import moldau.streams
from moldau.streams import StreamsBuilder

PAGE = (Path(__file__).parents[2] / "docs" / "streams.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_every_program_of_the_page_can_be_built(number: int) -> None:
    names: dict[str, Any] = {name: getattr(moldau.streams, name) for name in moldau.streams.__all__}
    names |= {"builder": StreamsBuilder(), "timedelta": timedelta, "__name__": "page"}
    exec(PROGRAMS[number], names)
    assert names["builder"].build().sources()


def test_the_page_has_twenty_programs_in_both_languages() -> None:
    assert PAGE.count("```java") == 20
    assert len(PROGRAMS) == 22


def test_the_plan_of_the_page_is_what_is_printed() -> None:
    from moldau.streams.files import load_topology
    from moldau.streams.topology.pictures import text_picture

    example = Path(__file__).parents[2] / "examples" / "streams" / "word_count.py"
    assert "\n".join(text_picture(load_topology(example))) in PAGE


def test_importing_streams_brings_no_heavy_library() -> None:
    heavy = ("pyspark", "numpy", "pyarrow", "google.protobuf", "uvloop")
    code = f"import sys, moldau.streams; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
