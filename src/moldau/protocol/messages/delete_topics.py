"""DeleteTopics: deletes topics.

Up to version 5 by name, in ``topic_names``; from version 6 by name or id, in ``topics``. Error messages
come with version 5.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, String, UuidBytes, field, request, response, struct


@struct
class DeleteTopicState:
    name: String | None = field(default=None)
    topic_id: UuidBytes = field()


@request(ApiKey.DELETE_TOPICS)
class DeleteTopicsRequest:
    topics: list[DeleteTopicState] = field("6+")
    topic_names: list[String] = field("1-5")
    timeout_ms: Int32 = field()


@struct
class DeletableTopicResult:
    name: String | None = field(nullable="6+")
    topic_id: UuidBytes = field("6+")
    error_code: Int16 = field()
    error_message: String | None = field("5+", default=None)


@response(ApiKey.DELETE_TOPICS)
class DeleteTopicsResponse:
    throttle_time_ms: Int32 = field()
    responses: list[DeletableTopicResult] = field()
