"""What failures cost: how often a cluster fails, what a checkpoint takes, how often to write one, and what time is left.

Letters: M seconds between two failures of the whole run on average, C seconds that training stands still for a checkpoint,
I seconds of training between two of them, R seconds from a failure until training goes on from the last checkpoint.
"""

from utils.checking import require_count, require_kind, require_number, require_positive
from utils.deadlocks.errors import BadValue
from utils.planner.conventions import StateBytes
from utils.planner.explained import Explained, explain
from utils.planner.shape import ModelShape

YOUNG = "Young 1974, A First Order Approximation to the Optimum Checkpoint Interval"
DALY = "Daly 2006, A Higher Order Estimate of the Optimum Checkpoint Interval"
SECONDS_AN_HOUR, HOURS_A_DAY = 3600, 24
MOST = 100  # times the mean time between failures: nothing lasts so long without one


def checkpoint_size(shape: ModelShape, state: StateBytes) -> Explained:
    """Bytes of a checkpoint: parameters and what the optimizer keeps for them, once, however many devices write it.

    Raises: TypeError.
    """
    require_kind("shape", shape, ModelShape)
    require_kind("state", state, StateBytes)
    return explain("checkpoint", "bytes", "P*(parameter + optimizer)", P=shape.parameters(), parameter=state.parameter,
                   optimizer=state.optimizer)


def checkpoint_time(size_bytes: float, bytes_per_s: float) -> Explained:
    """Seconds until a checkpoint is written or read. bytes_per_s: of the storage, for all devices together.

    Training stands still for less if the checkpoint is copied to host memory first and written from there.
    Raises: TypeError, ValueError.
    """
    require_positive("size_bytes", size_bytes)
    require_positive("bytes_per_s", bytes_per_s)
    return explain("checkpoint", "s", "M/rate", M=size_bytes, rate=bytes_per_s)


def device_mtbf(interruptions: int, days: float, devices: int) -> Explained:
    """Hours between two failures of one device (mean time between failures), from the interruptions of a run.

    Llama 3: 466 interruptions in 54 days on 16,384 GPUs, 419 of them unexpected (2407.21783, section 3.3.4).
    Raises: TypeError, ValueError.
    """
    require_count("interruptions", interruptions)
    require_count("devices", devices)
    require_positive("days", days)
    return explain("between failures of a device", "h", "days*day*n/failures", days=days, day=HOURS_A_DAY, n=devices,
                   failures=interruptions)


def run_mtbf(device_mtbf_hours: float, devices: int) -> Explained:
    """Seconds between two failures of a run that any device's failure stops.  Raises: TypeError, ValueError."""
    require_positive("device_mtbf_hours", device_mtbf_hours)
    require_count("devices", devices)
    return explain("between failures of the run", "s", "mtbf*hour/n", mtbf=device_mtbf_hours, hour=SECONDS_AN_HOUR,
                   n=devices)


def checkpoint_interval(checkpoint_s: float, mtbf_s: float, order: str = "Daly") -> Explained:
    """Seconds of training between two checkpoints that lose the least time.

    order: "Young", √(2CM), good for short checkpoints; "Daly", two terms more. Where checkpoints take longer than 2M, Daly's
    is M.  Raises: TypeError, ValueError.
    """
    require_positive("checkpoint_s", checkpoint_s)
    require_positive("mtbf_s", mtbf_s)
    if order not in ("Young", "Daly"):
        raise BadValue(f'order is "Young" or "Daly"; got {order!r}')
    values = {"C": checkpoint_s, "M": mtbf_s}
    if order == "Young":
        return explain("between checkpoints", "s", "sqrt(2*C*M)", YOUNG, **values)
    if checkpoint_s >= 2 * mtbf_s:
        return explain("between checkpoints", "s", "M", DALY, M=mtbf_s)
    return explain("between checkpoints", "s", "sqrt(2*C*M)*(1 + sqrt(C/(2*M))/3 + C/(18*M)) - C", DALY, **values)


def goodput(checkpoint_s: float, mtbf_s: float, restart_s: float, interval_s: float | None = None) -> Explained:
    """The share of the time in which training goes on: the rest goes into checkpoints, restarts and lost work.

    interval_s: seconds of training between two checkpoints; None: the best. Failures come at random (exponentially), also
    during restarts and checkpoints; stragglers and slow starts after a restart are not counted.
    Raises: TypeError, ValueError.
    """
    require_positive("checkpoint_s", checkpoint_s)
    require_positive("mtbf_s", mtbf_s)
    require_number("restart_s", restart_s)
    if restart_s < 0:
        raise BadValue(f"restart_s must not be negative; got {restart_s}")
    interval = checkpoint_interval(checkpoint_s, mtbf_s) if interval_s is None else interval_s
    require_positive("interval_s", interval)
    if max(restart_s, interval + checkpoint_s) > MOST * mtbf_s:
        raise BadValue(f"no training goes on: failures are {mtbf_s:.4g} s apart on average, a restart takes "
                       f"{restart_s:.4g} s, and an interval with its checkpoint {interval + checkpoint_s:.4g} s")
    return explain("goodput", "share", "I/(M*exp(R/M)*(exp((I + C)/M) - 1))", DALY, I=interval, C=checkpoint_s, M=mtbf_s,
                   R=restart_s)
