"""A rank function on devices that are not there.

cluster: devices, links and who reaches whom, as data. clusters: ready ones. roofline: what operations cost on a device.
shapes: tensors without numbers, quickly. fresh: what a rank finds in its process. stand_ins: what torch does otherwise
there. program: what one rank does, recorded with shapes only. recording: the programs of all ranks, in a few processes.
collectives: the messages that a library's collective is made of. network: when messages arrive on shared links. play: all
programs together, in simulated time. simulate: simulate_ranks and its run.
"""
