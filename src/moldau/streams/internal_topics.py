"""Which topics an application made for itself, by Kafka Streams' rule.

Pure.
"""

_SUFFIXES = ("-changelog", "-repartition", "-topic")


def is_internal(application_id: str, topic: str) -> bool:
    """Whether the name of a topic is that of an application's changelog, repartition topic, or foreign-key
    join.
    """
    return topic.startswith(f"{application_id}-") and topic.endswith(_SUFFIXES)
