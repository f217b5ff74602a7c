"""What a witness outside the ranks saw cross the network."""

from dataclasses import dataclass

FOREIGN, NOTICE = "not gloo", "notice"  # something else; gloo's "ready to send" and "ready to receive", which carry no data
CONNECTION, NOT_TCP = "connection", "not TCP"
NETWORK_DEMAND = "network contradicts"  # the demand that it bears out what ranks say of their calls


@dataclass(frozen=True)
class Flow:
    """All messages of one kind from one rank to another, their payload in bytes. None: it could not be told who.

    ahead: by how many sends at most the source had been ahead of those that came back from the target.
    """

    source: int | None
    target: int | None
    kind: str
    messages: int
    bytes: int
    ahead: int = 0


@dataclass(frozen=True)
class Observed:
    """What was seen to cross. complete: nothing was missed.

    store_bytes: what ranks told the store (where groups meet) after they had got their task.
    """

    complete: bool
    flows: tuple[Flow, ...]
    store_bytes: int = 0
