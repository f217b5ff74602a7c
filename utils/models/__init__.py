"""What the units train, and the text that it reads.

tiny: the models. text: the text, which is lessons.txt. training: the plain loop. blocks: a transformer block whose parts
have names. attention: attention to a part of the keys. ring_pass: it goes round a ring. step_memory: activations held
through a step. layers: the layers of any module. experts: a mixture of experts. stages: a model's stages for a pipeline.
shards: a rank's part of a tensor or block. mesh_stage: a rank's part of a GPT on a mesh, some layers and a shard of each.
hunted: parts of the programs in the bug hunt. hunted_stages: its pipeline. hunted_plain: the same in one process.
hunted_toy: a program with a bug, to be looked at. hunted_broken: the short programs, with theirs. hunted_mesh: parts of the
blind hunt's trainer. hunted_mesh_plain: its run in one process.
"""

from utils.models.tiny import DeepMLP, TinyGPT, n_parameters, next_byte_loss, same_start

__all__ = ["DeepMLP", "TinyGPT", "n_parameters", "next_byte_loss", "same_start"]
