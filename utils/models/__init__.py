"""What the units train, and the text that it reads.

tiny: the models. text: the text. blocks: a transformer block whose parts have names. attention: attention to a part of the
keys. layers: the layers of any module. stages: pieces of a model for a pipeline. shards: a rank's part of a tensor or block.
"""

from utils.models.tiny import DeepMLP, TinyGPT, n_parameters, next_byte_loss, same_start

__all__ = ["DeepMLP", "TinyGPT", "n_parameters", "next_byte_loss", "same_start"]
