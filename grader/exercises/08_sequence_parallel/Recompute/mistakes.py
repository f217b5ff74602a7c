"""Wrong recomputations."""

from grader.exercises.references import change

RESTORE = "torch.set_rng_state(ctx.random_state)"
GRADIENTS = "torch.autograd.grad(y, wanted, dy)"
RETURNED = "*(next(gradients) if is_needed else None for is_needed in needed)"

CHANGES = (
    change("through the layers before", "x.detach().requires_grad_(needed[0])", "x"),
    change("gradient of what needs none", "if is_needed]", "]"),
    change("gradient in another place", "return None, *(next(gradients) if is_needed else None for is_needed in needed)",
           "return *(next(gradients) if is_needed else None for is_needed in needed), None"),
    change("inside kept", "return run(x)", "with torch.enable_grad():\n"
                                           "            ctx.kept = run(x.detach().requires_grad_())\n"
                                           "        return ctx.kept.detach()"),
    change("run calls", "y = ctx.run(inputs[0])", f"ctx.run(inputs[0]); {RESTORE}; y = ctx.run(inputs[0])"),
    change("other dropout", RESTORE, "pass"),
    change("random state moved by backward", "torch.random.fork_rng(devices=[]), ", ""),
    change("random state rewound in forward", "return run(x)", f"y = run(x); {RESTORE}; return y"),
    change("parameter gradients lost", RETURNED, "next(gradients) if needed[0] else None, *(None for _ in parameters)"),
    change("parameter gradients lost", RETURNED,
           "next(gradients) if needed[0] else None, *(torch.zeros_like(p) for p in parameters)"),
    change("input gradient lost", RETURNED, f"None, *[{RETURNED[2:-1]}][1:]"),
    change("input gradient lost", RETURNED, f"torch.zeros_like(x), *[{RETURNED[2:-1]}][1:]"),
    change("parameter gradients twice", f"gradients = iter({GRADIENTS})",
           f"torch.autograd.backward(y, dy, retain_graph=True); gradients = iter({GRADIENTS})"),
    change("gradient from above ignored", GRADIENTS, "torch.autograd.grad(y, wanted, torch.ones_like(dy))"),
    change("wrong gradients", f"iter({GRADIENTS})", f"(3 * g for g in {GRADIENTS})"),
    change("second run without graph", ", torch.enable_grad()", ""),
    change("too few gradients", RETURNED, "next(gradients)"),
)
