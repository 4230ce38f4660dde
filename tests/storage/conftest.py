"""The fixtures of the tests of storage, which those of inspection use too."""

from tests.storage.storage_fixtures import *  # noqa: F403
