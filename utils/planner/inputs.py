"""Models and jobs as other tools write them: config.json, torchtitan's TOML, Megatron-LM's arguments."""

from utils.planner.config_json import shape_from_config
from utils.planner.job import Job
from utils.planner.megatron import from_megatron
from utils.planner.torchtitan import from_torchtitan

__all__ = ["Job", "from_megatron", "from_torchtitan", "shape_from_config"]
