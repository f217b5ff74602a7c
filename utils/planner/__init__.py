"""The planner: a model, devices and a layout in; memory, traffic, time and MFU out, each with its formula.

explained: a number that explains itself. checking: arguments that cannot be. shape: a model's sizes, parameters and FLOPs.
layout: degrees of parallelism, and why a layout cannot work. conventions: where papers count differently. assumptions: what
no formula knows. frameworks: that of training frameworks. memory: bytes on the fullest device. flows: one kind of message.
traffic: all of a step. work: what a device does. times: what it waits for, and step time. plan: all of that for one layout.
search: all layouts. ranking: what a search found, and what it ruled out. scaling: to 100,000 devices. utilization: MFU, HFU.

published: models and runs from print. steps: published training steps beside their plans. calibrate: how fast devices are,
from those. accuracy: the page that says how far the planner is off.
"""
