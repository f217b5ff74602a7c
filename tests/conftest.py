"""Groups of tests, which one worker takes whole and mostly waits in, stand among others; then long ones. Warm ranks."""

import gc
import os
import re

import cloudpickle
import pytest
import torch

from tests.warm_ranks import WarmRanks
from utils.languages.choice import ENGLISH, VARIABLE
from utils.ranks.server import warm_up

MANY = 100  # tests, of which some let ranks train
os.environ[VARIABLE] = ENGLISH  # whatever a course.toml here says
torch.set_num_threads(1)  # several workers, each with a thread a processor, would mostly wait for each other


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--every-case", action="store_true", help="try every mutant in all public cases: twice as long")
    parser.addoption("--exercise", metavar="NAME", help="only tests that are about this one")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if exercise := config.getoption("--exercise"):
        items[:] = [item for item in items if exercise in re.split(r"\W", item.name)]
    groups: dict[str, list[pytest.Item]] = {}
    alone: list[pytest.Item] = []
    for item in items:
        group = item.get_closest_marker("xdist_group")  # it keeps its order, so that no fixture is made twice
        groups.setdefault(group.args[0], []).append(item) if group else alone.append(item)
    alone.sort(key=lambda item: item.get_closest_marker("long") is None)
    share = len(alone) // (4 * len(groups)) if groups else 0  # all groups have begun long before the end
    items[:] = [item for i, group in enumerate(groups.values()) for item in group + alone[i * share:(i + 1) * share]]
    items += alone[len(groups) * share:]


def pytest_itemcollected(item: pytest.Item) -> None:
    """What ranks run of a test's file travels as it is: else each imports the file, and with it half the course."""
    cloudpickle.register_pickle_by_value(item.module)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is there now stays to the end: the collector need not look at it again and again.

    As in a notebook, ranks find imported what torch imports at an optimizer's first step, and else each for itself.
    """
    if len(session.items) > MANY:
        warm_up()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session")
def warm():
    """Of an exercise, a place for each of its cases, with ranks that are used again."""
    ranks = WarmRanks()
    yield ranks.place_of
    ranks.end()
