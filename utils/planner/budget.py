"""From tokens to device hours, money and energy: what a training run takes out of a budget."""

from utils.checking import require_count, require_number, require_positive
from utils.deadlocks.errors import BadValue
from utils.planner.explained import Explained, explain

SECONDS_AN_HOUR, HOURS_A_DAY = 3600, 24


def tokens_per_s_device(global_batch: int, sequence: int, step_s: float, devices: int) -> Explained:
    """Tokens that each device trains on in a second, as tables of vendors and frameworks have it.

    global_batch: sequences a step. sequence: tokens of each. step_s: seconds of a step.  Raises: TypeError, ValueError.
    """
    for what, count in {"global_batch": global_batch, "sequence": sequence, "devices": devices}.items():
        require_count(what, count)
    require_positive("step_s", step_s)
    return explain("tokens a second and device", "tokens/s", "B*s/(T*n)", B=global_batch, s=sequence, T=step_s, n=devices)


def device_hours(tokens: float, rate: float, goodput: float = 1.0) -> Explained:
    """Hours of one device that a run on so many tokens takes.

    rate: tokens a second and device. goodput: the share of the time that training goes on (utils.planner.goodput).
    Raises: TypeError, ValueError.
    """
    require_positive("tokens", tokens)
    require_positive("rate", rate)
    require_share("goodput", goodput)
    if goodput == 1:
        return explain("device hours", "h", "D/(R*hour)", D=tokens, R=rate, hour=SECONDS_AN_HOUR)
    return explain("device hours", "h", "D/(R*G*hour)", D=tokens, R=rate, G=goodput, hour=SECONDS_AN_HOUR)


def training_days(hours: float, devices: int) -> Explained:
    """Days that so many device hours take on so many devices.  Raises: TypeError, ValueError."""
    require_positive("hours", hours)
    require_count("devices", devices)
    return explain("training", "days", "H/(n*day)", H=hours, n=devices, day=HOURS_A_DAY)


def money(hours: float, price_per_device_hour: float, currency: str = "$") -> Explained:
    """The price of so many device hours.  Raises: TypeError, ValueError."""
    require_positive("hours", hours)
    require_positive("price_per_device_hour", price_per_device_hour)
    return explain("money", currency, "H*price", H=hours, price=price_per_device_hour)


def energy(hours: float, watts_per_device: float, pue: float = 1.0) -> Explained:
    """Kilowatt-hours of so many device hours.

    watts_per_device: what a device draws on average, with its part of the node. pue: power usage effectiveness, what the
    whole building draws for each watt of its computers; 1 leaves cooling and losses out.  Raises: TypeError, ValueError.
    """
    require_positive("hours", hours)
    require_positive("watts_per_device", watts_per_device)
    require_number("pue", pue)
    if pue < 1:
        raise BadValue(f"pue compares a building's power with that of its computers, so it is at least 1; got {pue}")
    return explain("energy", "kWh", "H*watts*PUE/1000", H=hours, watts=watts_per_device, PUE=pue)


def require_share(what: str, value: float) -> None:
    """A number above 0 and at most 1.  Raises: TypeError, ValueError in words."""
    require_number(what, value)
    if not 0 < value <= 1:
        raise BadValue(f"{what} is a share, above 0 and at most 1; got {value!r}")
