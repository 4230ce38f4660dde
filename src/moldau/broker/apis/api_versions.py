"""ApiVersions: v0-4.

Behaviour: the table of what this broker answers. A client names itself from v3 on; a name that no
client would have is refused, as Kafka's broker does.
Not done: features. None is finalized until the room that stands behind it exists.
"""

import re
from typing import Any

from moldau.broker.apis import TABLE
from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    if context.api_version >= 3:
        for text in (request.client_software_name, request.client_software_version):
            if _SOFTWARE.fullmatch(text) is None:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
    listed = [ApiVersion(key, api.minimum, api.maximum) for key, api in TABLE.items() if api.advertised]
    return ApiVersionsResponse(api_keys=listed)


def fail(request: Any, error: KafkaError, context: RequestContext) -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=error.code)
