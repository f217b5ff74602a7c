"""What to do here about errors of torch that programs meet which were written for a launcher: one sentence each."""

import re

_ON_ONE_MACHINE = ("on one machine the local rank is the rank: give the function a parameter called rank, or ask "
                   "dist.get_rank().")
_NO_LAUNCHER = ("no launcher sets this variable: give the function parameters called rank and world_size, or ask "
                "dist.get_rank() and dist.get_world_size().")
_ON_THE_CPU = "ranks compute on the CPU, with gloo, unless a run asks for GPUs: leave out"
_ADVICE = (  # (class of the error, what its message holds, what to do)
    ("ValueError", re.compile("initialize the default process group twice"),
     "a rank begins with its process group: leave init_process_group() out, or call it only if not dist.is_initialized()."),
    ("ValueError", re.compile("Default process group has not been initialized"),
     "a rank begins with its process group, so the program has destroyed it: call dist.destroy_process_group() last."),
    ("ValueError", re.compile(r"Global rank -?\d+ is not part of group"),
     "src= and dst= are ranks of the world, also in a group: for the group's own rank i write group_src=i or "
     "group_dst=i, or dist.get_global_rank(group, i)."),
    ("KeyError", re.compile("^'(LOCAL_RANK|LOCAL_WORLD_SIZE)'$"), _ON_ONE_MACHINE),
    ("KeyError", re.compile("^'(RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT)'$"), _NO_LAUNCHER),
    ("RuntimeError|AttributeError|NameError", re.compile("LOCAL_RANK is not in the environment|'local_rank'"),
     _ON_ONE_MACHINE),
    ("SystemExit", re.compile("^2$"),
     "arguments of a command line do not reach a rank: pass values as inputs=, or let the function name what it needs."),
    ("ValueError", re.compile("device_ids and output_device arguments only work with"),
     f"{_ON_THE_CPU} device_ids= and output_device=."),
    (".*", re.compile("Torch not compiled with CUDA|No CUDA GPUs are available|Found no NVIDIA driver|"
                      "doesn't have NCCL built in|accelerator device when none is available|"
                      "No backend type associated with device type cuda"),
     f"{_ON_THE_CPU} .cuda(), device=\"cuda\" and torch.cuda.set_device()."),
    ("RuntimeError", re.compile("Expected to have finished reduction in the prior iteration"),
     "some parameters had no part in this rank's loss: do not register what is not used, or wrap the model with "
     "find_unused_parameters=True."),
)


def advice_on(kind: str, message: str) -> list[str]:
    """The sentence for an error of this class with this message, or none."""
    fitting = (advice for kinds, pattern, advice in _ADVICE if re.fullmatch(kinds, kind) and pattern.search(message))
    return [f"Here: {advice}" for advice in fitting][:1]
