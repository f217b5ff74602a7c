"""A rank function on devices that are not there.

simulate: simulate_ranks and its run. recording: the programs of all ranks, recorded in a few processes. program: what one
rank does, recorded once. Of a rank that is recorded: group is its process group, exchange has known numbers that travel
between ranks, shapes makes tensors without numbers, quickly, numbers says which tensors keep theirs, functional records
functional collectives, reducer is DistributedDataParallel's, stand_ins what torch does otherwise there, fresh what a rank
finds in its process, refusals the words for what is not simulated.
play: all programs together, in simulated time. cluster: devices, links and who reaches whom, as data. clusters: ready ones.
roofline: what operations cost on a device. collectives: the messages that a library's collective is made of. network: when
messages arrive on shared links. nccl: what gloo takes and NCCL does not.
"""
