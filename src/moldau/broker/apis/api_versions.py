"""ApiVersions.

Behaviour: the table of what this broker answers. A client names itself from v3 on; a name that no
client would have is refused, as Kafka's broker does.
Our own client, whose name is "moldau", also gets our own APIs and those between brokers; no other client ever
sees them.
Features: those that stand behind what is answered, at the level that Kafka 4.3 has them; v3 leaves
out the ones whose lowest level is 0, which is all of them.
"""

import re
from typing import Any

from moldau.broker.access.asks import NOTHING
from moldau.broker.apis import CLIENT_TELEMETRY, FOR_OUR_CLIENT, TABLE
from moldau.broker.context import RequestContext
from moldau.cluster.records import ResourceType
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

ASKS = NOTHING
#: Names and levels: what is finalized, and the highest that is supported.
FEATURES = (("group.version", 1), ("transaction.version", 2))
_OUR_CLIENT = "moldau"
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    if context.api_version >= 3:
        for text in (request.client_software_name, request.client_software_version):
            if _SOFTWARE.fullmatch(text) is None:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
        context.connection.software = request.client_software_name, request.client_software_version
    ours = context.api_version >= 3 and request.client_software_name == _OUR_CLIENT
    telemetry = any(kind is ResourceType.CLIENT_METRICS for kind, _ in context.services.image.overrides)
    listed = [
        ApiVersion(key, api.minimum, api.maximum)
        for key, api in TABLE.items()
        if api.advertised or (ours and key in FOR_OUR_CLIENT) or (telemetry and key in CLIENT_TELEMETRY)
    ]
    response = ApiVersionsResponse(api_keys=listed)
    if context.api_version >= 3:
        response.finalized_features_epoch = context.services.image.version
        response.finalized_features = [FinalizedFeatureKey(name, level, level) for name, level in FEATURES]
    if context.api_version >= 4:
        response.supported_features = [SupportedFeatureKey(name, 0, level) for name, level in FEATURES]
    return response


def fail(request: Any, error: KafkaError, context: RequestContext) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=error.code)
