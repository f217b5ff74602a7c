"""Wrong wrappers of odd modules."""

from grader.exercises.references import change

CHANGES = (
    change("incomplete layers", "            if layer.is_whole:", "            if False:"),
    change("kept from a pass before", "if layer.gathering is not None", "if False"),
    change("gathered too often", "if self.reshard_after_forward or not trained", "if True"),
    change("outputs without hooks", "tensors_in(output)", "([output] if isinstance(output, torch.Tensor) else [])"),
    change("freed too early", "t.register_hook(lambda _: self._gather(layer, -1))", "pass"),
    change("whole layers in forward", "if self.reshard_after_forward or not trained", "if False"),
    change("frozen hooked", "if p.requires_grad", "if True", of="FullyShard"),
)
