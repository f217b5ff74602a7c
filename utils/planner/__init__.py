"""The planner: a model, devices and a layout in; memory, traffic, time and MFU out, each with its formula.

`from utils.planner import plan, search, Layout, …` has all that a question needs. The files, in the order of their imports:

explained: a number that explains itself. checking: arguments that cannot be. shape: a model's sizes, parameters and FLOPs.
layout: degrees of parallelism, and why a layout cannot work. conventions: where papers count differently. assumptions: what
no formula knows. frameworks: that of training frameworks. memory: bytes on the fullest device. flows: one kind of message.
traffic: all of a step. work: what a device does. times: what it waits for, and step time. utilization: MFU, HFU. published:
models and runs from print. budget: device hours, money, energy. export: a plan as plain numbers. plan: all of that for one
layout. goodput: what failures and checkpoints cost. search: all layouts. ranking: what a search found, and what it ruled
out. scaling: to 100,000 devices. steps: published training steps beside their plans. calibrate: how fast devices are, from
those. accuracy: the page that says how far the planner is off.

config_json, torchtitan, megatron: what other tools call a model and a layout. job: what they say, in our words. inputs: all
of these. cluster_json: a cluster of one's own. words: assumptions in sentences. report: a page to hand to somebody.
settings: options of the command line. command: `python -m utils.planner`.
"""

from utils.planner.assumptions import ALL_HIDDEN, NOTHING_HIDDEN, Assumptions
from utils.planner.calibrate import calibrate
from utils.planner.cluster_json import cluster_from_json
from utils.planner.conventions import BFLOAT16_8, DEEPSPEED_20, MEGATRON_18, PLAIN_16, ZERO_16, StateBytes
from utils.planner.frameworks import FRAMEWORKS
from utils.planner.goodput import checkpoint_interval, checkpoint_size, device_mtbf, goodput
from utils.planner.inputs import from_megatron, from_torchtitan, shape_from_config
from utils.planner.layout import Layout, reasons_against
from utils.planner.plan import Plan, comparison, plan
from utils.planner.published import MODELS, model_named
from utils.planner.scaling import scaling
from utils.planner.search import search
from utils.planner.shape import ModelShape
from utils.planner.utilization import hfu, mfu
from utils.simulation.cluster import Cluster, Device, FatTree, Link, Torus
from utils.simulation.clusters import CLUSTERS, cluster_named

# plan, search, scaling, goodput, calibrate are functions here; `from utils.planner.plan import …` still reads the modules.
__all__ = [
    "ALL_HIDDEN", "BFLOAT16_8", "CLUSTERS", "DEEPSPEED_20", "FRAMEWORKS", "MEGATRON_18", "MODELS", "NOTHING_HIDDEN",
    "PLAIN_16", "ZERO_16", "Assumptions", "Cluster", "Device", "FatTree", "Layout", "Link", "ModelShape", "Plan",
    "StateBytes", "Torus", "calibrate", "checkpoint_interval", "checkpoint_size", "cluster_from_json", "cluster_named",
    "comparison", "device_mtbf", "from_megatron", "from_torchtitan", "goodput", "hfu", "mfu", "model_named", "plan",
    "reasons_against", "scaling", "search", "shape_from_config",
]
