"""What can be chosen about serializers and deserializers, and the names of their subjects.

Pure. The defaults are Confluent's: the subject of a topic, registering by oneself, the id
before the payload.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from moldau.serde.errors import SerdeError

#: (topic, whether it is the key, the name of the record) -> subject
SubjectName: TypeAlias = Callable[[str, bool, str | None], str]
Strategy: TypeAlias = Literal["topic", "record", "topic-record"] | SubjectName


def topic_name(topic: str, is_key: bool, record: str | None) -> str:
    return f"{_topic(topic)}-key" if is_key else f"{_topic(topic)}-value"


def record_name(topic: str, is_key: bool, record: str | None) -> str:
    return _record(record)


def topic_record_name(topic: str, is_key: bool, record: str | None) -> str:
    return f"{_topic(topic)}-{_record(record)}"


STRATEGIES: dict[str, SubjectName] = {
    "topic": topic_name,
    "record": record_name,
    "topic-record": topic_record_name,
}


def strategy_of(chosen: Strategy) -> SubjectName:
    if callable(chosen):
        return chosen
    found = STRATEGIES.get(chosen)
    if found is None:
        names = ", ".join(STRATEGIES)
        raise ValueError(
            f"there is no subject name strategy {chosen!r}; choose one of {names}, or a function"
        )
    return found


def _topic(topic: str) -> str:
    if not topic:
        raise SerdeError("The subject is made of the topic's name, and no topic is given.")
    return topic


def _record(record: str | None) -> str:
    if not record:
        raise SerdeError(
            "The subject is made of the record's name, and the schema has none: give the schema a name "
            "(a title for JSON), or choose the strategy 'topic'."
        )
    return record


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """``use_latest_version`` writes with the latest version of the subject, asked for once."""

    subject_name: Strategy = "topic"
    auto_register: bool = True
    use_latest_version: bool = False
    normalize: bool = False
    schema_id_in: Literal["prefix", "header"] = "prefix"
    #: What ``serialize(topic, value)`` is for; a SerializationContext says so itself.
    is_key: bool = False
    #: Avro: refuse a record with fields that the schema does not have; they are left out otherwise.
    strict: bool = False
    #: JSON: look whether a value fits the schema.
    validate: bool = True

    def __post_init__(self) -> None:
        strategy_of(self.subject_name)
        if self.schema_id_in not in ("prefix", "header"):
            raise ValueError(f"schema_id_in is 'prefix' or 'header', not {self.schema_id_in!r}")


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """``use_latest_version`` reads with the latest version of the subject, asked for once."""

    subject_name: Strategy = "topic"
    use_latest_version: bool = False
    is_key: bool = False
    #: Avro: a record in a union comes as (name, record).
    return_record_name: bool = False
    #: JSON: look whether a value fits the schema.
    validate: bool = True
    #: Protobuf: a dict in place of a message.
    as_dict: bool = False

    def __post_init__(self) -> None:
        strategy_of(self.subject_name)
