"""The file of a query: names and texts of statements stand in it as literals, whatever they say."""

import ast

import pytest

from moldau.sql.program import file_of

HOSTILE = (
    'x"""\nimport os\nos.system("true")\n"""',
    "x'''\nimport os\n",
    "x\\\nimport os",
    "{statements}",
    "\u2028import os",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_no_name_and_no_text_becomes_code(text: str) -> None:
    """The name of a stream once stood in a docstring, and could end it."""
    made = ast.parse(file_of(f"CSAS_{text}_1", [text, text], text, [text]))
    imports, *assignments = made.body
    assert isinstance(imports, ast.ImportFrom)
    assert imports.module == "moldau.sql.program"
    assert len(assignments) == 3
    statements, functions, topology = (each.value for each in assignments if isinstance(each, ast.Assign))
    assert ast.literal_eval(statements) == [text, text]
    assert ast.literal_eval(functions) == [text]
    assert isinstance(topology, ast.Call)
    assert ast.literal_eval(topology.keywords[0].value) == text
