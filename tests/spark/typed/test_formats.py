"""What formats say of themselves; how they read and write is tested with each of them."""

import subprocess
import sys

from moldau.spark.typed.formats import FORMATS, format_of


def test_names_and_what_a_registry_calls_them() -> None:
    assert list(FORMATS) == ["bytes", "string", "json", "avro", "protobuf"]
    assert {name: each.registry_type for name, each in FORMATS.items() if each.has_schema} == {
        "json": "JSON",
        "avro": "AVRO",
        "protobuf": "PROTOBUF",
    }
    assert format_of("AVRO") is FORMATS["avro"]
    assert format_of("XML") is None
    assert [name for name, each in FORMATS.items() if each.has_messages] == ["protobuf"]
    assert [name for name, each in FORMATS.items() if each.writes_by_schema] == ["avro", "protobuf"]


def test_options_can_be_read_before_arrow_is_loaded() -> None:
    code = "import sys, moldau.spark.typed.formats; assert 'pyarrow' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
