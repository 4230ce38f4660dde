"""UpdateFeatures.

Behaviour: every feature has the one level that ApiVersions names. To ask for that level changes nothing; any
other level, and a feature that is not known, is INVALID_UPDATE_VERSION for the request as a whole.
"""

from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.apis.api_versions import FEATURES
from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from moldau.security.acls import Operation

ASKS = (cluster(Operation.ALTER, said="Request UpdateFeatures needs ALTER permission."),)


def handle(request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    for update in request.feature_updates:
        _check(update, context)
    response = UpdateFeaturesResponse(error_message=None)
    if context.api_version <= 1:
        response.results = [UpdatableFeatureResult(each.feature, 0, None) for each in request.feature_updates]
    return response


def _check(update: FeatureUpdateKey, context: RequestContext) -> None:
    name, level = update.feature, update.max_version_level
    if dict(FEATURES).get(name) == level:
        return
    node = context.services.image.controller_id
    reason = (
        f"Local controller {node} does not support this feature."
        if name not in dict(FEATURES)
        else f"Local controller {node} only supports version {dict(FEATURES)[name]}."
    )
    said = f"Invalid update version {level} for feature {name}. {reason}"
    raise KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"The update failed for all features since the following feature had an error: {said}",
    )


def fail(request: Any, error: KafkaError, context: RequestContext) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)
