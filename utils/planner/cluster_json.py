"""A cluster of one's own from a JSON file: what differs from a ready one, or all of it."""

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from utils.checking import require_kind, require_name
from utils.deadlocks.errors import BadValue
from utils.simulation.cluster import Cluster, Device, Link
from utils.simulation.clusters import cluster_named

PARTS = {"device": Device, "inside": Link, "between": Link}
PLAIN = ("name", "n_devices", "devices_per_node", "source")


def cluster_from_json(source: str | Path | Mapping[str, Any]) -> Cluster:
    """The cluster that a file, or a dictionary, describes.

    Entries are those of Cluster, Device and Link: name, device, n_devices, devices_per_node, inside, between, source, in
    devices, bytes, seconds, FLOP/s. "like" names a ready cluster, of which only what is written changes; without it all of
    it must be there, and every device of a node and every node reaches every other (Switched).
    Raises: OSError, TypeError, ValueError with what is missing or unknown.
    """
    if not isinstance(source, Mapping):
        path = Path(source)
        try:
            source = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise BadValue(f"{path} is no JSON: {error}") from None
        require_kind(f"what {path} holds", source, dict)
    for key in source:
        require_name("entry of a cluster", key, ("like", *PLAIN, *PARTS))
    usual = cluster_named(source["like"]) if "like" in source else None
    made = {name: _part(name, kind, source[name], getattr(usual, name, None)) for name, kind in PARTS.items()
            if source.get(name) is not None}
    made |= {name: source[name] for name in PLAIN if name in source}
    if usual:
        return replace(usual, **{"name": f"{usual.name}, changed", "source": f"{usual.source}; changed", **made})
    missing = [name for name in ("name", "device", "n_devices", "devices_per_node", "inside") if name not in made]
    if missing:
        raise BadValue(f'a cluster needs {", ".join(missing)}, or "like" with the name of a ready one')
    return Cluster(**made)


def _part(name: str, kind: type, entries: Any, usual: Any) -> Any:
    """A device or a link, or what differs from the usual one."""
    require_kind(f"a cluster's {name}", entries, dict)
    for key in entries:
        require_name(f"entry of {name}", key, [field.name for field in fields(kind)])
    try:
        return replace(usual, **entries) if usual is not None else kind(**entries)
    except TypeError as error:
        if "missing" in str(error):
            raise BadValue(f"a cluster's {name} lacks{str(error).partition('missing')[2]}") from None
        raise
