"""Errors in plain words, and what to do next. Pure."""

from moldau.client.registry.errors import RegistryError
from moldau.protocol.errors import KafkaError

#: By the name of the error code.
_NEXT = {
    "BROKER_NOT_AVAILABLE": "See whether the brokers run, and whether the address is right.",
    "NETWORK_EXCEPTION": "The connection broke. Try again in a moment.",
    "REQUEST_TIMED_OUT": "The cluster took too long. Try again in a moment.",
    "UNKNOWN_TOPIC_OR_PARTITION": "The topic is not there, or you may not see it.",
    "TOPIC_ALREADY_EXISTS": "Choose another name, or look at the topic that has it.",
    "INVALID_TOPIC_EXCEPTION": "Names have letters, digits, dots, dashes and underscores.",
    "INVALID_REPLICATION_FACTOR": "A topic cannot have more replicas than the cluster has brokers.",
    "INVALID_PARTITIONS": "The number of partitions of a topic can only grow.",
    "INVALID_CONFIG": "Look at the values that the config takes, and try again.",
    "POLICY_VIOLATION": "The cluster has a rule against it; its administrator knows more.",
    "TOPIC_AUTHORIZATION_FAILED": "You lack a permission on this topic: ask who administers the cluster.",
    "GROUP_AUTHORIZATION_FAILED": "You lack a permission on this group: ask who administers the cluster.",
    "CLUSTER_AUTHORIZATION_FAILED": "You lack a permission on the cluster: ask who administers it.",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "You lack a permission: ask who administers the cluster.",
    "SASL_AUTHENTICATION_FAILED": "The name or the password is wrong.",
    "SECURITY_DISABLED": "The cluster has no authorizer: start it with one to use permissions.",
    "GROUP_ID_NOT_FOUND": "The group is gone, or was never there.",
    "UNKNOWN_MEMBER_ID": "The group has members: stop its consumers first, then try again.",
    "NON_EMPTY_GROUP": "The group has members: stop its consumers first, then try again.",
    "GROUP_SUBSCRIBED_TO_TOPIC": "A member still reads the topic: stop it first.",
    "MESSAGE_TOO_LARGE": "Raise max.message.bytes of the topic, or send less.",
    "INVALID_RECORD": "The topic refuses such records: a compacted one wants keys, a validated one schemas.",
    "OFFSET_OUT_OF_RANGE": "There is no such offset: it was deleted, or is not written yet.",
    "UNSUPPORTED_VERSION": "This cluster cannot do that: it is Moldau's own, or newer than the cluster.",
    "NOT_CONTROLLER": "The controller is moving. Try again in a moment.",
    "NO_REASSIGNMENT_IN_PROGRESS": "The move is over already.",
}


def in_words(error: KafkaError) -> str:
    """What the cluster said, with the name of the error that every guide uses."""
    said = " ".join((error.message or "").split()).rstrip(".")
    return f"{said} ({error.code.name})" if said else error.code.name


def registry_step(error: RegistryError) -> str:
    if error.status in (401, 403):
        return "The registry does not let this console do that: see the user that it was given for it."
    if 400 <= error.status < 500:
        return "The registry understands the question and refuses it: correct it and try again."
    return "See whether the schema registry runs, and whether its address is right."


def next_step(error: KafkaError) -> str:
    return _NEXT.get(error.code.name, "Try again; if it stays so, the brokers' logs say more.")
