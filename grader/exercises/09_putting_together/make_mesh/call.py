"""How a rank calls make_mesh."""

from collections.abc import Callable
from typing import Any

from grader.calling.meshes import ranks_of
from grader.calling.numberless import NumbersWatched
from grader.calling.splitting import built
from grader.calling.watching_inputs import watched
from grader.evidence.case import REFUSED


def call(fn: Callable, inputs: dict[str, Any], group) -> Any:
    """fn(sizes) → axis → the ranks of this rank's group; or which sizes a ValueError named."""
    with NumbersWatched():
        mesh = built(lambda: watched(fn, {"sizes": inputs["sizes"]}), inputs["refused"])
    return mesh if REFUSED in mesh else {axis: ranks_of(mesh[axis]) for axis in mesh}
