"""Ready clusters, from published figures. Latencies and efficiencies are round assumptions.

Of these 0.7 for an H100 was measured: 0.71 to 0.76 in products of 4,096³ to 16,384³ in bfloat16; of its memory's speed 0.9.
"""

import math
from typing import Any

from utils.checking import require_name
from utils.simulation.cluster import Cluster, Device, FatTree, Link, Torus
from utils.simulation.collectives import ring_on_each_rail, torus_rings

# What the driver shows of "80 GB", and so of the others: torch.cuda.get_device_properties.
A100_BYTES, H100_BYTES = 79.1 * 2**30, 79.1 * 2**30
A100 = Device("A100 80 GB", {"bfloat16": 312e12, "float16": 312e12, "float32": 19.5e12}, A100_BYTES, 2.0e12, efficiency=0.7)
A100_40 = Device("A100 40 GB", A100.flops, 39.4 * 2**30, 1.555e12, efficiency=0.7)
V100 = Device("V100 32 GB", {"float16": 125e12, "float32": 15.7e12}, 32e9, 0.9e12, efficiency=0.7)
HOPPER = {"bfloat16": 989e12, "float16": 989e12, "float8_e4m3fn": 1979e12, "float32": 67e12}
BLACKWELL = {"bfloat16": 2250e12, "float16": 2250e12, "float8_e4m3fn": 4500e12, "float32": 75e12}
H100 = Device("H100 SXM", HOPPER, H100_BYTES, 3.35e12, efficiency=0.7)
H100_500W = Device("H100 SXM 96 GB 500 W", HOPPER, 95.0 * 2**30, 2.4e12, efficiency=0.7)
H800 = Device("H800", HOPPER, H100_BYTES, 3.35e12, efficiency=0.7)
H200 = Device("H200 SXM", HOPPER, 139.8 * 2**30, 4.8e12, efficiency=0.7)
B200 = Device("B200", BLACKWELL, 178.3 * 2**30, 7.7e12, efficiency=0.7)
B300 = Device("B300", BLACKWELL, 268 * 2**30, 8.0e12, efficiency=0.7)
GB200 = Device("GB200", {dtype: flops / 0.9 for dtype, flops in BLACKWELL.items()}, 184 * 2**30, 8.0e12, efficiency=0.7)
GH200 = Device("GH200", HOPPER, 95.0 * 2**30, 4.0e12, efficiency=0.7)
MI300X = Device("MI300X", {"bfloat16": 1307e12, "float16": 1307e12, "float8_e4m3fn": 2615e12, "float32": 163e12},
                191.5 * 2**30, 5.3e12, efficiency=0.5)
TPU_V5E = Device("TPU v5e", {"bfloat16": 197e12, "float32": 197e12 / 4}, 16e9, 0.82e12, efficiency=0.7, library="XLA")
TPU_V4 = Device("TPU v4", {"bfloat16": 275e12, "float32": 275e12 / 4}, 32e9, 1.2e12, efficiency=0.7, library="XLA")
TPU_V5P = Device("TPU v5p", {"bfloat16": 459e12, "float32": 459e12 / 4}, 95.7 * 2**30, 2.8e12, efficiency=0.7, library="XLA")
TPU_V6E = Device("TPU v6e", {"bfloat16": 918e12, "float32": 918e12 / 4}, 32e9, 1.64e12, efficiency=0.7, library="XLA")

NVLINK_V100 = Link("NVLink", 2e-6, 150e9)
NVLINK_H800 = Link("NVLink", 2e-6, 200e9)
NVLINK_B200 = Link("NVLink", 2e-6, 900e9)
NVLINK_A100 = Link("NVLink", 2e-6, 300e9)
NVLINK_H100 = Link("NVLink", 2e-6, 450e9)
XGMI_MI300X = Link("xGMI", 2e-6, 448e9)
EDR = Link("InfiniBand EDR", 5e-6, 12.5e9)
HDR = Link("InfiniBand HDR", 5e-6, 25e9)
NDR = Link("InfiniBand NDR", 5e-6, 50e9)
ICI_V4 = Link("ICI", 1e-6, 45e9)
ICI_V5E = Link("ICI", 1e-6, 45e9)
ICI_V6E = Link("ICI", 1e-6, 90e9)
ICI_V5P = Link("ICI", 1e-6, 90e9)
RAILS = ring_on_each_rail(8)
DATASHEETS = "data sheets of NVIDIA V100 to GB200; link speeds: utils/costs/data/links.csv"
TPU_PAGES = "scaling-book, pages on TPUs; link speeds: utils/costs/data/links.csv"


def _torus(name: str, device: Device, link: Link, shape: tuple[int, ...]) -> Cluster:
    return Cluster(name, device, math.prod(shape), 1, link, link, topology=Torus(shape), algorithm=torus_rings(shape),
                   source=TPU_PAGES)


CLUSTERS = {cluster.name: cluster for cluster in (
    Cluster("A100 node", A100, 8, 8, NVLINK_A100, source=DATASHEETS),
    Cluster("H100 node", H100, 8, 8, NVLINK_H100, source=DATASHEETS),
    Cluster("A100", A100, 4096, 8, NVLINK_A100, HDR, topology=FatTree(20), algorithm=RAILS, source=DATASHEETS),
    Cluster("A100 40 GB", A100_40, 4096, 8, NVLINK_A100, HDR, topology=FatTree(20), algorithm=RAILS, source=DATASHEETS),
    Cluster("H100", H100, 4096, 8, NVLINK_H100, NDR, topology=FatTree(32), algorithm=RAILS, source=DATASHEETS),
    Cluster("H100 500 W", H100_500W, 4096, 8, NVLINK_H100, NDR, topology=FatTree(32), algorithm=RAILS,
            source=f"{DATASHEETS}; torchtitan's H100 with HBM2e and less power"),
    Cluster("H100 tapered", H100, 4096, 8, NVLINK_H100, NDR, topology=FatTree(32, taper=2.0), algorithm=RAILS,
            source=DATASHEETS),
    Cluster("V100", V100, 4096, 8, NVLINK_V100, EDR, topology=FatTree(32), algorithm=RAILS, source=DATASHEETS),
    Cluster("H800", H800, 4096, 8, NVLINK_H800, NDR, topology=FatTree(32), algorithm=RAILS, source=DATASHEETS),
    Cluster("H200", H200, 4096, 8, NVLINK_H100, NDR, topology=FatTree(32), algorithm=RAILS, source=DATASHEETS),
    Cluster("B200", B200, 4096, 8, NVLINK_B200, NDR, topology=FatTree(32), algorithm=RAILS, source=DATASHEETS),
    Cluster("B300", B300, 4096, 8, NVLINK_B200, Link("InfiniBand XDR", 5e-6, 100e9), topology=FatTree(32), algorithm=RAILS,
            source=DATASHEETS),
    Cluster("GB200", GB200, 4608, 72, NVLINK_B200, NDR, topology=FatTree(8), algorithm=ring_on_each_rail(72),
            source=DATASHEETS),
    Cluster("GH200", GH200, 4096, 4, NVLINK_H100, HDR, topology=FatTree(32), algorithm=ring_on_each_rail(4),
            source=DATASHEETS),
    Cluster("MI300X", MI300X, 4096, 8, XGMI_MI300X, NDR, topology=FatTree(32), algorithm=RAILS,
            source="data sheet of AMD MI300X; that products reach half of its peak is assumed"),
    _torus("TPU v6e torus", TPU_V6E, ICI_V6E, (16, 16)),
    _torus("TPU v5e torus", TPU_V5E, ICI_V5E, (16, 16)),
    _torus("TPU v4 torus", TPU_V4, ICI_V4, (16, 16, 16)),
    _torus("TPU v5p torus", TPU_V5P, ICI_V5P, (16, 16, 16)),
)}


def cluster_named(name: Any) -> Cluster:
    """A ready cluster by its name, or by its device's ("H100 SXM").  Raises: ValueError with the nearest name."""
    by_device = {cluster.device.name: cluster for cluster in reversed(CLUSTERS.values()) if cluster.between}
    if isinstance(name, str) and name not in CLUSTERS and name in by_device:
        return by_device[name]
    require_name("cluster", name, CLUSTERS, "; or describe your own with Cluster(...)")
    return CLUSTERS[name]
