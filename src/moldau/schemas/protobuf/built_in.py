"""The files that a Protobuf schema may import although nobody registered them.

protoc brings google/protobuf along itself. Google's common types come from the package that installs them,
and Confluent's few files, which clients import for tags and decimals, are declared here: names and numbers of
fields, as they are encoded.

Invariant: no other file of this installation can be imported.
"""

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

_DECIMAL = "confluent/type/decimal.proto"
#: What Confluent's clients import and never register.
_CONFLUENTS = {
    "confluent/meta.proto": """syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
  repeated Rule rules = 4;
}
message Rule {
  string name = 1;
  string doc = 2;
  string expr = 3;
  string sql = 4;
}
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
""",
    _DECIMAL: """syntax = "proto3";
package confluent.type;
message Decimal {
  bytes value = 1;
  uint32 precision = 2;
  int32 scale = 3;
}
""",
    "confluent/type/variant.proto": """syntax = "proto3";
package confluent.type;
message Variant {
  bytes metadata = 1;
  bytes value = 2;
}
""",
    # Where decimals were before.
    "confluent/types/decimal.proto": f'syntax = "proto3";\nimport public "{_DECIMAL}";\n',
}
_GOOGLES = re.compile(r"google/type/[a-z_]+\.proto")


def built_in(texts: Iterable[str]) -> dict[str, str]:
    """The files by name: Confluent's, and those of google/type where a text speaks of them."""
    wanted = any("google/type/" in text for text in texts)
    return {**_CONFLUENTS, **(_google_types() if wanted else {})}


@cache
def _google_types() -> dict[str, str]:
    """None where the package googleapis-common-protos is not installed."""
    try:
        found = files("google.type")
    except ModuleNotFoundError:
        return {}
    texts = {f"google/type/{each.name}": each for each in found.iterdir()}
    wanted = {name: each for name, each in texts.items() if _GOOGLES.fullmatch(name)}
    return {name: each.read_text(encoding="utf-8") for name, each in wanted.items()}
