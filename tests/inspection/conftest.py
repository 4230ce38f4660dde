"""The directories to look into are made as the tests of storage make them."""

from tests.storage.storage_fixtures import *  # noqa: F403
