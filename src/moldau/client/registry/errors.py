"""What a schema registry refuses, as an error.

Invariant: nothing else is in this file, so that catching the error does not load an HTTP client.
"""


class RegistryError(Exception):
    """``status`` is HTTP's and 0 where no registry answered; ``code`` is the registry's ``error_code``."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(status, code, message)
        self.status = status
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return self.message
