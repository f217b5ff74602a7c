"""Devices, links, and which links a message takes, as data that anyone can write down in ten lines."""

import difflib
import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import torch

from utils.checking import require_kind
from utils.deadlocks.errors import BadType, BadValue
from utils.simulation.collectives import Round, ring, torus_rings


@dataclass(frozen=True)
class Device:
    """One accelerator. flops: peak FLOP/s by dtype ("bfloat16"); other dtypes run at the slowest of them.

    memory_bytes: what it holds. memory_bytes_per_s: how fast it reads and writes that. efficiency: the share of peak FLOP/s
    that matrix products reach. overhead_s: what starting an operation costs. library: that its ranks communicate by.
    """

    name: str
    flops: Mapping[str, float]
    memory_bytes: float
    memory_bytes_per_s: float
    efficiency: float = 1.0
    overhead_s: float = 0.0
    library: str = "NCCL"

    def __post_init__(self):
        require_kind(f"device {self.name!r}: flops", self.flops, Mapping)
        if not self.flops:
            raise BadValue(f"device {self.name!r}: flops must name at least one dtype, such as {{'bfloat16': 989e12}}")
        for dtype in self.flops:
            _names_a_dtype(dtype, f"device {self.name!r}: flops")
        for what, value in {**{f"flops[{dtype!r}]": value for dtype, value in self.flops.items()},
                            "memory_bytes": self.memory_bytes, "memory_bytes_per_s": self.memory_bytes_per_s,
                            "efficiency": self.efficiency}.items():
            _positive(value, f"device {self.name!r}: {what}")
        if self.efficiency > 1:
            raise BadValue(f"device {self.name!r}: efficiency is a share of the peak, at most 1; got {self.efficiency}")
        _not_negative(self.overhead_s, f"device {self.name!r}: overhead_s")

    def flops_of(self, dtype: str) -> float:
        """FLOP/s that matrix products of this dtype reach."""
        return self.efficiency * self.flops.get(dtype, min(self.flops.values()))


@dataclass(frozen=True)
class Link:
    """A way for bytes: latency_s, bytes_per_s in one direction. shared: one for the whole node, not one for each device.

    latency_s: from device to device, whatever switches lie between. The simulator and the planner both take it from here.
    """

    name: str
    latency_s: float
    bytes_per_s: float
    shared: bool = False

    def __post_init__(self):
        _positive(self.bytes_per_s, f"link {self.name!r}: bytes_per_s")
        require_kind(f"link {self.name!r}: shared", self.shared, bool)
        _not_negative(self.latency_s, f"link {self.name!r}: latency_s")


class Hop(NamedTuple):
    """One directed link of a route; messages with the same `wire` share it."""

    wire: tuple
    kind: str  # the link's name, for the time by link
    latency_s: float
    bytes_per_s: float


class Topology(Protocol):
    """How nodes are joined: the hops from one node's port to another's."""

    def hops(self, link: Link, source: "Position", target: "Position") -> list[Hop]: ...


class Position(NamedTuple):
    """Where a device sits."""

    node: int
    slot: int


@dataclass(frozen=True)
class Switched:
    """Every port reaches every other at full speed (NVSwitch, a small InfiniBand switch)."""

    def hops(self, link: Link, source: Position, target: Position) -> list[Hop]:
        ends = (("out", *_port(link, source)), ("in", *_port(link, target)))
        return [Hop((link.name, *end), link.name, latency, link.bytes_per_s)
                for end, latency in zip(ends, (link.latency_s, 0.0), strict=True)]


@dataclass(frozen=True)
class FatTree:
    """Rail-optimised: the same slot of every node of a pod hangs on one leaf switch; between pods, spine switches.

    taper: how many times less bandwidth leaves a leaf switch upwards than comes to it from below: so many fewer are the
    cables up, among which its nodes are dealt out.
    """

    nodes_per_pod: int
    taper: float = 1.0

    def __post_init__(self):
        _positive(self.nodes_per_pod, "FatTree: nodes_per_pod")
        _positive(self.taper, "FatTree: taper")

    def hops(self, link: Link, source: Position, target: Position) -> list[Hop]:
        first, last = Switched().hops(link, source, target)
        leaves = [(place.node // self.nodes_per_pod, 0 if link.shared else place.slot) for place in (source, target)]
        if leaves[0] == leaves[1]:
            return [first, last]
        cables = max(round(self.nodes_per_pod / self.taper), 1)
        each = self.nodes_per_pod * link.bytes_per_s / self.taper / cables
        between = [Hop((link.name, way, *leaf, place.node % cables), f"{link.name} spine", 0.0, each)
                   for way, leaf, place in zip(("up", "down"), leaves, (source, target), strict=True)]
        return [first, *between, last]


@dataclass(frozen=True)
class Torus:
    """Nodes in a grid whose ends are joined (a ring has one dim). Messages take one dim after the other, the shorter way.

    Half round a ring both ways are as short: from every second node they go one way, from the others the other.
    joined: False for a grid whose rows end.
    """

    shape: tuple[int, ...]
    joined: bool = True

    def __post_init__(self):
        require_kind("Torus: shape", self.shape, Sequence)
        if not self.shape:
            raise BadValue("Torus: shape must have a size for each dimension, such as (4, 4); got ()")
        for size in self.shape:
            _positive(size, "Torus: a size")
            require_kind("Torus: a size", size, int)

    def hops(self, link: Link, source: Position, target: Position) -> list[Hop]:
        at, goal, hops = list(self._coordinates(source.node)), self._coordinates(target.node), []
        for dim, size in enumerate(self.shape):
            ahead = (goal[dim] - at[dim]) % size
            forward = 2 * ahead < size + (at[dim] + 1) % 2 if self.joined else at[dim] < goal[dim]
            step = 1 if forward else -1
            while at[dim] != goal[dim]:
                hops.append(Hop((link.name, tuple(at), dim, step), link.name, link.latency_s, link.bytes_per_s))
                at[dim] = (at[dim] + step) % size
        return hops

    def spanned(self, members: int, stride: int = 1) -> list[tuple[int, bool]]:
        """(how many, whether their ends are joined) along each dim that so many neighbours fill, beginning with the last.

        stride: ranks from one to the next, which fill the last dims before. Empty where they fill no box: 17 of 16 × 16.
        """
        dims = []
        for size in reversed(self.shape):
            before = _largest_divisor(stride, size)
            along = _largest_divisor(members, size // before)
            stride, members = stride // before, members // along
            if along > 1:
                dims.append((along, self.joined and along == size > 2))
        return dims[::-1] if members == 1 else []

    def slice(self, nodes: int) -> "Torus":
        """So many nodes as a job gets them: a box, its sides as equal as can be.

        Of a torus with three dims, whose ends optical switches join, its own ends are joined where all sides are multiples
        of 4 (TPU v4, v5p); of one with fewer dims they are where it is all of it.
        """
        if nodes == math.prod(self.shape):
            return self
        boxes = [box for box in itertools.product(divisors(nodes), repeat=len(self.shape) - 1)
                 if nodes % math.prod(box) == 0]
        boxes = [tuple(sorted([*box, nodes // math.prod(box)])) for box in boxes]
        box = min(boxes, key=lambda box: (any(side % 4 for side in box), box[-1] - box[0]))
        return Torus(box, self.joined and len(box) > 2 and all(side % 4 == 0 for side in box))

    def _coordinates(self, node: int) -> tuple[int, ...]:
        coordinates = []
        for size in reversed(self.shape):
            node, coordinate = divmod(node, size)
            coordinates.append(coordinate)
        if node:
            raise BadValue(f"a torus of {' × '.join(map(str, self.shape))} has fewer nodes than the ranks need")
        return tuple(reversed(coordinates))


@dataclass(frozen=True)
class Cluster:
    """`n_devices` devices in nodes of `devices_per_node`: `inside` joins those of a node, `between` the nodes.

    algorithm: the messages of a library's collective (utils.simulation.collectives). source: where the numbers come from.
    Rank r is device r: ranks fill one node after the other.
    """

    name: str
    device: Device
    n_devices: int
    devices_per_node: int
    inside: Link
    between: Link | None = None
    within: Topology = field(default_factory=Switched)
    topology: Topology = field(default_factory=Switched)
    algorithm: Callable[..., list[Round]] = ring
    source: str = ""

    def __post_init__(self):
        _not_a_name(f"cluster {self.name!r}: device", self.device, Device, "H100, A100, TPU_V5P")
        _not_a_name(f"cluster {self.name!r}: inside", self.inside, Link, "NVLINK_H100, NVLINK_A100")
        if self.between is not None:
            _not_a_name(f"cluster {self.name!r}: between", self.between, Link, "NDR, HDR, ICI_V5P")
        require_kind(f"cluster {self.name!r}: algorithm", self.algorithm, Callable)
        _makes_rounds(self.algorithm, f"cluster {self.name!r}: algorithm")
        for what in ("within", "topology"):
            if not callable(getattr(getattr(self, what), "hops", None)):
                raise BadType(f"cluster {self.name!r}: {what} must be a topology, such as Switched() or Torus((4, 4)); got "
                              f"{getattr(self, what)!r}")
        for what in ("n_devices", "devices_per_node"):
            count = getattr(self, what)
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise BadValue(f"cluster {self.name!r}: {what} must be a whole number from 1; got {count!r}")
        if self.between is None and self.n_devices > self.devices_per_node:
            raise BadValue(f"cluster {self.name!r}: {self.n_devices} devices need more than one node of "
                           f"{self.devices_per_node}; say by which link nodes are joined (between=Link(...))")

    def reaching(self, share: float) -> "Cluster":
        """The same cluster whose links carry this share of their data sheets; collectives reach about 0.8 of NVLink's."""
        _positive(share, "the share of their data sheets that links reach")
        inside, between = (link and replace(link, bytes_per_s=share * link.bytes_per_s)
                           for link in (self.inside, self.between))
        return replace(self, inside=inside, between=between)

    def slice(self, n_devices: int) -> "Cluster":
        """What a job with so many devices gets: of a torus a smaller torus or grid; others stay as they are."""
        if not isinstance(self.topology, Torus) or n_devices == self.n_devices:
            return self
        topology = self.topology.slice(n_devices // self.devices_per_node)
        return replace(self, n_devices=n_devices, topology=topology, algorithm=torus_rings(topology.shape, topology.joined))

    def place(self, rank: int) -> Position:
        """The node and slot of a rank's device."""
        return Position(*divmod(rank, self.devices_per_node))

    def route(self, source: int, target: int) -> list[Hop]:
        """The links that a message from rank `source` to rank `target` takes."""
        here, there = self.place(source), self.place(target)
        if here.node != there.node:
            return self.topology.hops(self.between, here, there)
        ends = (Position(0 if self.inside.shared else place.slot, place.slot) for place in (here, there))
        return [hop._replace(wire=(here.node, *hop.wire)) for hop in self.within.hops(self.inside, *ends)]


def divisors(number: int) -> list[int]:
    """From 1 to the number itself."""
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


def _largest_divisor(number: int, most: int) -> int:
    return max(divisor for divisor in range(1, min(number, max(most, 1)) + 1) if number % divisor == 0)


def _not_a_name(what: str, value: Any, kind: type, ready: str) -> None:
    if isinstance(value, str):
        raise BadType(f"{what} must be a {kind.__name__}; got {value!r}, a name. Write a {kind.__name__}(...), or import a "
                      f"ready one from utils.simulation.clusters: {ready} ...")
    require_kind(what, value, kind)


def _makes_rounds(algorithm: Callable, what: str) -> None:
    try:
        inspect.signature(algorithm).bind("all_reduce", 1.0, [0, 1], 0)
    except TypeError as error:
        raise BadType(f"{what} must take (op, total_bytes, members, root): {error}. Some are made by a call, as "
                      "hierarchical(8)") from None


def _port(link: Link, place: Position) -> tuple[int, ...]:
    return (place.node,) if link.shared else (place.node, place.slot)


def _names_a_dtype(name: Any, what: str) -> None:
    """Else its FLOP/s would never be used, and nobody told."""
    known = [each for each in dir(torch) if isinstance(getattr(torch, each), torch.dtype)]
    if name not in known:
        near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.3)
        hint = f"did you mean {near[0]!r}?" if near else "write 'bfloat16', 'float32' or the like"
        raise BadValue(f"{what}: torch has no dtype called {name!r}; {hint}")


def _positive(value: Any, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadType(f"{what} must be a number; got {value!r} (write 1e9, not \"1B\")")
    if not 0 < value < float("inf"):
        raise BadValue(f"{what} must be positive and finite; got {value!r}")


def _not_negative(value: Any, what: str) -> None:
    if value != 0 or isinstance(value, bool):
        _positive(value, what)
