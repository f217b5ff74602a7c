"""Where papers count differently: every choice has a name and is passed on as an argument; nothing here is set for all."""

from dataclasses import dataclass

from utils.checking import require_name, require_number, require_positive
from utils.deadlocks.errors import BadType, BadValue
from utils.planner.explained import Explained, explain

GIGABYTES = {"GB": 1000 ** 3, "GiB": 1024 ** 3}
BUBBLE_RELATIVE_TO = {"ideal": "bubble/ideal", "total": "bubble/(bubble + ideal)"}


@dataclass(frozen=True)
class StateBytes:
    """Bytes that one parameter costs in training: itself, its gradient, and what the optimizer keeps for it.

    gathered, reduced: bytes that travel when it is gathered and its gradient reduced, if not those that are kept (FSDP keeps
    fp32 parameters and gathers 16 bits of each).
    """

    name: str
    parameter: float
    gradient: float
    optimizer: float
    source: str = ""
    gathered: float | None = None
    reduced: float | None = None

    def __post_init__(self):
        for what in ("parameter", "gradient", "optimizer", "gathered", "reduced"):
            if getattr(self, what) is None and what in ("gathered", "reduced"):
                continue
            require_number(f"{self.name}: bytes for {what}", getattr(self, what))
            if getattr(self, what) < 0:
                raise BadValue(f"{self.name}: bytes for {what} must not be negative; got {getattr(self, what)!r}")

    @property
    def gathered_bytes(self) -> float:
        """Bytes that travel for a parameter when it is gathered."""
        return self.parameter if self.gathered is None else self.gathered

    @property
    def reduced_bytes(self) -> float:
        """Bytes that travel for a gradient when it is reduced."""
        return self.gradient if self.reduced is None else self.reduced

    @property
    def total(self) -> float:
        """All of them."""
        return self.parameter + self.gradient + self.optimizer


ZERO_16 = StateBytes("16 bytes a parameter", 2, 2, 12, "Rajbhandari et al. 2020 (1910.02054), section 3.1")
MEGATRON_18 = StateBytes("18 bytes a parameter", 2, 4, 12, "Megatron-LM: gradients in fp32; distributed optimizer 6 + 12/d")
DEEPSPEED_20 = StateBytes("20 bytes a parameter", 2, 2, 16, "DeepSpeed's ZeRO-2 estimator: gradients in fp32 too, 2 + 18/d")
BFLOAT16_8 = StateBytes("8 bytes a parameter, all in bfloat16", 2, 2, 4, "parameters, gradients, Adam's moments in bfloat16")
FSDP_16 = StateBytes("16 bytes a parameter, all in fp32, gathered in bfloat16", 4, 4, 8,
                     "FSDP2's MixedPrecisionPolicy: bfloat16 parameters, float32 reduction", gathered=2, reduced=4)
XLA_14 = StateBytes("14 bytes a parameter, gradients in bfloat16", 4, 2, 8, "MaxText: fp32 weights, sent in bfloat16",
                    gathered=2, reduced=2)
PLAIN_16 = StateBytes("16 bytes a parameter, all in fp32", 4, 4, 8, "parameters, gradients, Adam's two moments in fp32")


# What an optimizer keeps for a parameter beside an fp32 copy of it, as Megatron counts: fp32 gradients, 16-bit weights.
OPTIMIZERS = {
    "AdamW": MEGATRON_18,
    "AdamW-8bit": StateBytes("12 bytes a parameter, moments in 8 bits", 2, 4, 6, "Dettmers et al. 2022 (2110.02861)"),
    "Muon": StateBytes("14 bytes a parameter, one moment", 2, 4, 8, "momentum in fp32, for all parameters"),
    "SGD": StateBytes("14 bytes a parameter, one moment", 2, 4, 8, "with momentum, in fp32"),
    "Adafactor": StateBytes("10 bytes a parameter, moments by row and column", 2, 4, 4, "Shazeer, Stern 2018 (1804.04235)"),
}


def state_named(state: StateBytes | str) -> StateBytes:
    """Bytes a parameter by the optimizer's name.  Raises: TypeError for another name or kind."""
    if not isinstance(state, StateBytes) and state not in OPTIMIZERS:
        raise BadType(f"state must be a StateBytes, or an optimizer's name ({', '.join(OPTIMIZERS)}); got {state!r}")
    return state if isinstance(state, StateBytes) else OPTIMIZERS[state]


def gigabytes(amount_bytes: float, unit: str) -> Explained:
    """Bytes in "GB" (10⁹) or "GiB" (2³⁰).  Raises: ValueError for another unit."""
    require_number("amount_bytes", amount_bytes)
    require_name("unit", unit, GIGABYTES)
    return explain(getattr(amount_bytes, "name", ""), unit, "M/unit", M=amount_bytes, unit=GIGABYTES[unit])


def relative_bubble(bubble: float, ideal: float, relative_to: str) -> Explained:
    """Idle time as a share: of the "ideal" time, in which no device waits, or of the "total" time, which it lengthens.

    Source: ideal: Narayanan et al. 2021 (2104.04473), section 2.2; total: Huang et al. 2019 (GPipe), Qi et al. 2024.
    Raises: ValueError for another convention.
    """
    require_name("convention", relative_to, BUBBLE_RELATIVE_TO)
    require_number("the bubble", bubble)
    if bubble < 0:
        raise BadValue(f"the bubble must not be negative; got {bubble!r}")
    require_positive("the ideal time", ideal)
    formula = BUBBLE_RELATIVE_TO[relative_to]
    return explain(f"bubble, relative to {relative_to} time", "share", formula, bubble=bubble, ideal=ideal)
