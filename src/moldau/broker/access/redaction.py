"""Requests as the request log shows them: without passwords, tokens, salts and values of configs.

Invariant: what is secret is known by the name of its field, in whichever message it is; a request that holds
another one (Envelope) is shown by its size. Names of users, topics and configs stay.
"""

from typing import Any

from moldau.protocol.schema import declaration

#: Bytes and texts that nobody may read in a log; ``value`` is that of a config.
SECRET_FIELDS = frozenset(
    {"auth_bytes", "hmac", "salt", "salted_password", "value", "request_data", "request_principal"}
)
#: Longer ones are cut: a log is no place for records.
_MOST_CHARACTERS = 2000


def shown(request: Any) -> str:
    """One line, of a bounded length."""
    text = _shown(request)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, bytes | bytearray | memoryview) and len(value) > 64:
        return f"<{len(value)} bytes>"
    if not hasattr(value, "__message__"):
        return repr(value)
    parts = []
    for field in declaration(type(value)).fields:
        part = getattr(value, field.name)
        # A number, as that of a quota, is no secret.
        is_text = isinstance(part, str | bytes | bytearray | memoryview)
        hidden = field.name in SECRET_FIELDS and is_text and len(part) > 0
        parts.append(f"{field.name}={'***' if hidden else _shown(part)}")
    return f"{type(value).__name__}({', '.join(parts)})"
