"""Wrong ways to make a mesh."""

import torch.distributed as dist

from grader.exercises.references import change, mistake

KEEP = "if rank in line:\n                    mesh[axis] = group"
STRIDE = "stride //= size"
REFUSAL = """    if math.prod(sizes.values()) != world:
        raise ValueError(f"a mesh of {sizes} has {math.prod(sizes.values())} ranks, but the world has {world}")
"""

CHANGES = (
    change("first axis fastest", "stride, mesh = world, {}", "stride, mesh = 1, {}", STRIDE, "before = stride",
           "mesh[axis] = group", "mesh[axis] = group\n        stride *= size"),
    change("first axis fastest", "mesh[axis] = group", "mesh[list(sizes)[-1 - list(sizes).index(axis)]] = group"),
    change("wrong lines", STRIDE, "stride = 1"),
    change("wrong lines", STRIDE, "stride = world // size"),
    change("one group of all", "list(line)", "list(range(world))"),
    change("not everyone makes every group", "group = dist.new_group(list(line))\n                ",
           "", "mesh[axis] = group", "mesh[axis] = dist.new_group(list(line))"),
    change("not refused", "!= world", "> 10**6"),
    change("not a member", KEEP, "mesh[axis] = group"),
    change("no group", "mesh[axis] = group", "mesh[axis] = list(line)"),
    change("too many groups", "if first // stride % size == 0:\n                line = range(first,",
           "if True:\n                first -= first // stride % size * stride\n                line = range(first,"),
    change("axis missing", "return mesh", "return {axis: mesh[axis] for axis in mesh if sizes[axis] > 1}"),
    change("fixed names", "sizes.items()", "{axis: sizes.get(axis, 1) for axis in (\"dp\", \"pp\", \"tp\")}.items()"),
    change("wrong lines", "range(first, first + stride * size, stride)",
           "range(first // size * size, first // size * size + size)"),
    change("refused too late", "!= world", "> world", "    return mesh", f"{REFUSAL}    return mesh"),
    change("input changed", "return mesh", "sizes.clear()\n    return mesh"),
    change("fixed names", "sizes.items()", "{axis: sizes[axis] for axis in (\"dp\", \"pp\", \"tp\") "
           "if axis != \"pp\" or len(sizes) > 2}.items()"),
    change("numbers asked for", "stride, mesh = world, {}",
           "world = int(torch.tensor(world))\n    stride, mesh = world, {}"),
)


@mistake("the other axes")
def across(sizes):
    import math
    world, mesh, stride = dist.get_world_size(), {}, dist.get_world_size()
    if math.prod(sizes.values()) != world:
        raise ValueError(f"{math.prod(sizes.values())} is not {world}")
    for axis, size in sizes.items():
        stride //= size
        for place in range(size):
            line = [rank for rank in range(world) if rank // stride % size == place]
            group = dist.new_group(line)
            if dist.get_rank() in line:
                mesh[axis] = group
    return mesh


@mistake("not made by hand")
def from_torch(sizes):
    import math

    from torch.distributed.device_mesh import init_device_mesh
    world = dist.get_world_size()
    if math.prod(sizes.values()) != world:
        raise ValueError(f"{math.prod(sizes.values())} is not {world}")
    mesh = init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))
    return {axis: mesh.get_group(axis) for axis in sizes}
