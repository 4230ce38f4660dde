"""What the proxy answers when it will not or cannot: the codes and words of Confluent's REST Proxy.

Invariant: clients decide by the code, so a code means here what it means there. What a cluster refuses is
turned into one of them in one place, ``from_kafka``. Where v2 and v3 differ, v2 is asked for by ``v2=True``.

Pure.
"""

from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.web.problems import Problem

CONSUMER_INSTANCE_NOT_FOUND = 40403
KAFKA_ERROR, KAFKA_RETRIABLE_ERROR = 50002, 50003

#: The cluster does not let a login in.
AUTHENTICATION = frozenset(
    {
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.ILLEGAL_SASL_STATE,
    }
)
_AUTHORIZATION = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)
_NOT_FOUND = frozenset(
    {
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    }
)
_BAD_REQUEST = frozenset(
    {
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_RECORD,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.SECURITY_DISABLED,
        ErrorCode.INVALID_PRINCIPAL_TYPE,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.TOPIC_DELETION_DISABLED,
    }
)
_CONFLICT = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    }
)


def from_kafka(error: KafkaError, *, v2: bool = False) -> Problem:
    """A cluster's refusal as an answer of the proxy."""
    code, words = error.code, error.message or error.code.name
    if code in AUTHENTICATION:
        return Problem(40101, 401, f"Authentication failed: {words}")
    if code in _AUTHORIZATION:
        return Problem(40301, 403, words)
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return topic_not_found() if v2 else unknown_topic_or_partition()
    if code in _NOT_FOUND:
        return Problem(404, 404, words)
    if code in _BAD_REQUEST:
        return Problem(40002, 400, words)
    if code in _CONFLICT:
        return illegal_state(words)
    if code == ErrorCode.LEADER_NOT_AVAILABLE and v2:
        return Problem(40404, 404, "Leader not available.")
    if code == ErrorCode.BROKER_NOT_AVAILABLE:
        return Problem(50302, 503, words)
    if error.retriable:
        return Problem(KAFKA_RETRIABLE_ERROR, 500, f"Retriable Kafka error: {words}")
    return Problem(KAFKA_ERROR, 500, f"Kafka error: {words}")


# v2 ----------------------------------------------------------------------------------------------------


def topic_not_found() -> Problem:
    return Problem(40401, 404, "Topic not found.")


def partition_not_found() -> Problem:
    return Problem(40402, 404, "Partition not found.")


def consumer_instance_not_found() -> Problem:
    return Problem(CONSUMER_INSTANCE_NOT_FOUND, 404, "Consumer instance not found.")


def consumer_format_mismatch() -> Problem:
    said = "The requested embedded data format does not match the deserializer for this consumer instance"
    return Problem(40601, 406, said)


def serialization_failed(why: object) -> Problem:
    """Data that cannot be read, and a schema that cannot be had or registered."""
    return Problem(40801, 408, str(why))


def already_subscribed() -> Problem:
    said = (
        "Consumer cannot subscribe the the specified target because it has already subscribed to "
        "other topics."
    )
    return Problem(40901, 409, said)


def consumer_already_exists() -> Problem:
    said = "Consumer with specified consumer ID already exists in the specified consumer group."
    return Problem(40902, 409, said)


def illegal_state(why: object) -> Problem:
    return Problem(40903, 409, f"Illegal state: {why}")


def key_schema_missing() -> Problem:
    return Problem(42201, 422, "Request includes keys but does not include key schema")


def value_schema_missing() -> Problem:
    return Problem(42202, 422, "Request includes values but does not include value schema")


def conversion_failed(why: object) -> Problem:
    return Problem(42203, 422, f"Conversion of JSON to Object failed: {why}")


def invalid_consumer_config(why: object) -> Problem:
    return Problem(42204, 422, f"Invalid consumer configuration: {why}")


def invalid_schema(why: object) -> Problem:
    return Problem(42205, 422, f"Invalid schema: {why}")


def unprocessable(why: object) -> Problem:
    """A request that cannot be read as what it should be."""
    return Problem(422, 422, str(why))


# v3 ----------------------------------------------------------------------------------------------------


def unknown_topic_or_partition() -> Problem:
    return Problem(40403, 404, "This server does not host this topic-partition.")


def not_found(what: str) -> Problem:
    return Problem(404, 404, f"{what} cannot be found.")


def bad_request(why: object) -> Problem:
    return Problem(400, 400, str(why))


def too_many(what: str) -> Problem:
    """A bound of the proxy's own; the client may come back."""
    return Problem(503, 503, f"Too many {what}", {"Retry-After": "5"})
