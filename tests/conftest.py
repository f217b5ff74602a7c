"""Groups of tests first, which one worker takes whole; of the rest the long ones, so that none ends alone. Warm ranks."""

from functools import partial

import pytest
import torch

from tests.warm_ranks import WarmPlace
from utils.ranks.place import Place

torch.set_num_threads(1)  # several workers, each with a thread a processor, would mostly wait for each other


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def order(item: pytest.Item) -> tuple[bool, bool]:
        alone = item.get_closest_marker("xdist_group") is None  # a group keeps its order, so that no fixture is made twice
        return alone, alone and item.get_closest_marker("long") is None

    items.sort(key=order)


@pytest.fixture(scope="session")
def warm():
    """A place for each case, with ranks that are used again."""
    pool = []
    yield partial(WarmPlace, pool)
    Place().end(pool, finished=False)
