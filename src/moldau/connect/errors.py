"""What goes wrong in connectors, under the names that Kafka Connect's users know.

Status pages, logs and headers of dead letters name an error by its Java class, so every error here has one in
``java_class``.

Invariant: a bad record or setting is one of these errors, never a bare Python exception.
"""

from typing import ClassVar


class JavaError(Exception):
    """An error that people know by the name of a Java class."""

    java_class: ClassVar[str] = "java.lang.RuntimeException"

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else ""


class ConnectException(JavaError):
    java_class = "org.apache.kafka.connect.errors.ConnectException"


class RetriableException(ConnectException):
    """What may work when it is tried again."""

    java_class = "org.apache.kafka.connect.errors.RetriableException"


class DataException(ConnectException):
    """A schema or a value that is not as it must be."""

    java_class = "org.apache.kafka.connect.errors.DataException"


class SchemaBuilderException(DataException):
    java_class = "org.apache.kafka.connect.errors.SchemaBuilderException"


class ConfigException(JavaError):
    java_class = "org.apache.kafka.common.config.ConfigException"

    @classmethod
    def of(cls, name: str, value: object, reason: str | None = None) -> "ConfigException":
        """``value`` is not allowed for the setting ``name``."""
        from moldau.connect.data.text import java_text

        text = f"Invalid value {java_text(value)} for configuration {name}"
        return cls(text if reason is None else f"{text}: {reason}")


class SerializationException(JavaError):
    java_class = "org.apache.kafka.common.errors.SerializationException"


class IllegalArgumentException(JavaError):
    java_class = "java.lang.IllegalArgumentException"


class NumberFormatException(IllegalArgumentException):
    java_class = "java.lang.NumberFormatException"


class NullPointerException(JavaError):
    java_class = "java.lang.NullPointerException"


class ClassCastException(JavaError):
    java_class = "java.lang.ClassCastException"


class IndexOutOfBoundsException(JavaError):
    java_class = "java.lang.IndexOutOfBoundsException"


class ArrayIndexOutOfBoundsException(IndexOutOfBoundsException):
    java_class = "java.lang.ArrayIndexOutOfBoundsException"


class UnsupportedCharsetException(IllegalArgumentException):
    java_class = "java.nio.charset.UnsupportedCharsetException"


class IllegalCharsetNameException(IllegalArgumentException):
    java_class = "java.nio.charset.IllegalCharsetNameException"


class InvalidFormatException(JavaError):
    """A text of JSON that should hold bytes but does not."""

    java_class = "com.fasterxml.jackson.databind.exc.InvalidFormatException"


class ParseException(JavaError):
    java_class = "java.text.ParseException"
