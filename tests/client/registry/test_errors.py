"""What a schema registry refuses, as an error."""

import pickle

from moldau.client.registry.errors import RegistryError


def test_an_error_is_its_message_and_travels_between_processes() -> None:
    error = RegistryError(404, 40401, "Subject 's' not found.")
    assert str(error) == "Subject 's' not found."
    there = pickle.loads(pickle.dumps(error))
    assert (there.status, there.code, there.message) == (404, 40401, "Subject 's' not found.")
