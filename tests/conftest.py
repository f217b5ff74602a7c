"""Groups of tests first, which one worker takes whole; then the long ones, so that none ends alone. Warm ranks for all."""

from functools import partial

import pytest

from tests.warm_ranks import WarmPlace
from utils.ranks.place import Place


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: (item.get_closest_marker("xdist_group") is None, item.get_closest_marker("long") is None))


@pytest.fixture(scope="session")
def warm():
    """A place for each case, with ranks that are used again."""
    pool = []
    yield partial(WarmPlace, pool)
    Place().end(pool, finished=False)
