"""Who leads: values only; real groups are in ``test_replicated_state``."""

import json

from moldau.client.replicated_state.election import Identity, choose_leader


def test_one_of_the_eligible_is_chosen():
    def metadata(port: int, **more) -> bytes:
        return json.dumps(Identity("h", port, **more).to_json()).encode()

    choice = choose_leader([("m2", metadata(2)), ("m1", metadata(1, eligible=False)), ("m3", b"no identity")])
    assert choice["master"] == "m2"
    assert Identity.from_json(choice["master_identity"]).url == "http://h:2"
    assert "master" not in choose_leader([("m1", metadata(1, eligible=False))])
    assert choose_leader([("m1", metadata(1)), ("m2", metadata(1))])["error"] == 1
    assert Identity("::1", 80).url == "http://[::1]:80"
