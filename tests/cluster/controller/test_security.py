"""Commands on delegation tokens as values: what is over does not come back."""

import pytest

from moldau.cluster.controller.security import change_token, remove_token, set_token
from moldau.cluster.image import EMPTY_IMAGE
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.security.delegation_tokens import DelegationToken
from moldau.security.principals import Principal

_TOKEN = DelegationToken("id", Principal("ann"), Principal("ann"), (), 0, 50, 100)


def _later(token: DelegationToken) -> DelegationToken:
    return token._replace(expires_at_ms=80)


def test_a_change_is_made_to_the_token_as_it_is() -> None:
    image = EMPTY_IMAGE.apply_all(set_token(EMPTY_IMAGE, _TOKEN))
    result = change_token(image, "id", _later)
    assert result.response.expires_at_ms == 80
    assert image.apply_all(result.records).security.tokens["id"] == _later(_TOKEN)
    assert change_token(image, "id", lambda token: token).records == ()


def test_a_renewal_that_comes_behind_the_end_brings_nothing_back() -> None:
    """Whoever renews all the time has one under way when the owner ends the token."""
    image = EMPTY_IMAGE.apply_all(set_token(EMPTY_IMAGE, _TOKEN))
    image = image.apply_all(remove_token(image, "id"))
    with pytest.raises(KafkaError) as error:
        change_token(image, "id", _later)
    assert error.value.code is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
