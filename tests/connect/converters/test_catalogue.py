"""Converters by their names; the core needs none of the extras."""

import subprocess
import sys

import pytest

from moldau.connect.converters.catalogue import CONVERTERS, HEADER_CONVERTERS, converter
from moldau.connect.errors import ConnectException

EXTRAS = ("pyspark", "starlette", "uvicorn", "httpx", "jsonschema_rs", "google.protobuf", "pydantic", "numpy")


def test_names() -> None:
    assert len(CONVERTERS) == 12
    assert len(HEADER_CONVERTERS) == 13
    with pytest.raises(ConnectException, match="name matches Nope"):
        converter("Nope", {})


@pytest.mark.slow
def test_the_core_needs_no_extra() -> None:
    blocked = "".join(f"sys.modules[{name!r}] = None\n" for name in EXTRAS)
    modules = (
        "moldau.connect.converters.catalogue, moldau.connect.transforms.catalogue, moldau.connect.plugins"
    )
    code = f"import sys\n{blocked}import {modules}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
