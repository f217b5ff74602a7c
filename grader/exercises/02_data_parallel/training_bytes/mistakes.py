"""Wrong accounts of training memory."""

from grader.exercises.references import change

CHANGES = (
    change("keys", '"parameters"', '"params"', '"gradients"', '"grads"'),
    change("one parameter's", "size * n_parameters", "size"),
    change("master copy forgotten", "(2, 4)", "(2, 0)"),
    change("master copy forgotten", "(2, 4)", "(2, 2)"),
    change("master copy in float32", "(4, 0)", "(4, 4)"),
    change("bits", "size * n_parameters", "8 * size * n_parameters"),
    change("state halved", '"momentum": 4, "variance": 4', '"momentum": low, "variance": low'),
    change("gradients in float32", '"gradients": low', '"gradients": 4'),
    change("gradients twice", '"gradients": low', '"gradients": low + master'),
    change("gradients for master copy", '"gradients": low, "master parameters": master',
           '"gradients": 4, "master parameters": 2 if mixed_precision else 0'),
    change("items exchanged", '"parameters": low', '"parameters": 4', '"momentum": 4',
           '"momentum": low'),
    change("precision ignored", "if mixed_precision", "if not mixed_precision"),
    change("state halved", '"momentum": 4', '"momentum": low'),
    change("state halved", '"variance": 4', '"variance": low'),
)
