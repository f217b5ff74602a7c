"""A prefetch that begins once the shards are what they will be."""

from grader.exercises.shared.hunted import LR, Inputs, hunted, of, shared_batches, worlds
from utils.models.hunted_plain import Notes, plain_shards


def _plain(inputs: Inputs) -> list[Notes]:
    return plain_shards(of(inputs, "batches"), LR)


EXERCISE = hunted("Case 9: a little off", ("batches", "lr", "group"), worlds(shared_batches, (1, 4)), _plain)
