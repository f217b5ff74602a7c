"""Wrong accounts of training memory."""

from tests.mutants import mutant

NAMES = ("parameters", "gradients", "master parameters", "momentum", "variance")


def _of(sizes, n_parameters):
    return {name: size * n_parameters for name, size in zip(NAMES, sizes, strict=True)}


@mutant("keys")
def other_names(n_parameters, mixed_precision):
    return {"params": 4 * n_parameters, "grads": 4 * n_parameters, "adam": 8 * n_parameters}


@mutant("one parameter's")
def of_one(n_parameters, mixed_precision):
    return _of((2, 2, 4, 4, 4) if mixed_precision else (4, 4, 0, 4, 4), 1)


@mutant("master copy forgotten")
def no_master(n_parameters, mixed_precision):
    return _of((2, 2, 0, 4, 4) if mixed_precision else (4, 4, 0, 4, 4), n_parameters)


@mutant("master copy in float32")
def always_master(n_parameters, mixed_precision):
    return _of((2, 2, 4, 4, 4) if mixed_precision else (4, 4, 4, 4, 4), n_parameters)


@mutant("state halved")
def half_state(n_parameters, mixed_precision):
    return _of((2, 2, 4, 2, 2) if mixed_precision else (4, 4, 0, 4, 4), n_parameters)


@mutant("gradients in float32")
def full_gradients(n_parameters, mixed_precision):
    return _of((2, 4, 4, 4, 4) if mixed_precision else (4, 4, 0, 4, 4), n_parameters)


@mutant("precision ignored")
def other_way_round(n_parameters, mixed_precision):
    return _of((4, 4, 0, 4, 4) if mixed_precision else (2, 2, 4, 4, 4), n_parameters)
