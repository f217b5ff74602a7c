"""Wrong ring all-reduces."""

from grader.exercises.references import change

_BEGIN = "n, r = dist.get_world_size(group), dist.get_rank(group)"

CHANGES = (
    change("library call", _BEGIN, "dist.all_reduce(x, group=group)\n    return x"),
    change("mean for sum", "[: len(x)]", "[: len(x)] / n"),
    change("whole tensors", _BEGIN, "return ring_all_gather(x, group).sum(0)"),
    change("no all-gather", "range(n - 1):  # all-gather", "range(0):  # all-gather"),
    change("no all-gather", "range(n - 1):  # all-gather", "range(0):  # all-gather",
           "return x_NC", "x_NC = x_NC * (torch.arange(n) == r)[:, None]\n    return x_NC"),
    change("uneven length", "padding = -len(x) % n", "padding = 0"),
    change("tail left out", "padding = -len(x) % n", "size = len(x) // n",
           "(torch.nn.functional.pad(x, (0, padding)) if padding else x).view(n, -1)", "x[:n * size].view(n, size)",
           "return x_NC.view(-1)[: len(x)]", "return x"),
    change("padding returned", "[: len(x)]", ""),
    change("input returned", "padding else x)", "padding else x.clone())", "return x_NC.view(-1)[: len(x)]", "return x"),
    change("group ignored", _BEGIN, f"group = dist.group.WORLD\n    {_BEGIN}"),
    change("one step too many", "range(n - 1):  # reduce-scatter", "range(n):  # reduce-scatter"),
    change("past the neighbours", "isend(x_NC[(r - step) % n], group=group, group_dst=(r + 1) % n)",
           "isend(x_NC[r], group=group, group_dst=(r + step + 1) % n)",
           "recv(x_NC[(r - step - 1) % n], group=group, group_src=(r - 1) % n)",
           "recv(x_NC[(r - step - 1) % n], group=group, group_src=(r - step - 1) % n)"),
    change("chunk returned", "range(n - 1):  # all-gather", "range(0):  # all-gather", "x_NC.view(-1)[: len(x)]", "x_NC[r]"),
    change("chunks returned", "x_NC.view(-1)[: len(x)]", "x_NC"),
    change("tail cut off", "padding = -len(x) % n", "padding = 0\n    x = x[:len(x) // n * n]"),
    change("another type sent", "(torch.nn.functional.pad(x, (0, padding)) if padding else x)",
           "(torch.cat([x, torch.zeros(padding)]) if padding else x)"),
    change("padded in front", "(0, padding)", "(padding, 0)"),
    change("rows for columns", "padding else x).view(n, -1)", "padding else x).view(-1, n).T.contiguous()"),
    change("own chunks gathered", "    for step in range(n - 1):  # all-gather",
           "    x_NC[r] = own_NC[r]\n    for step in range(n - 1):  # all-gather",
           "    received_C", "    own_NC = x_NC.clone()\n    received_C"),
)

EQUIVALENT = {
    'x_NC[(r - step - 2) % n] += received_C | (r - step - 2) % n → r - step - 2':
        'r − step − 2 is never below −n, where Python counts from the end.',
    "received_C = torch.empty_like(x_NC[0]) | 0 → (-1)": "All rows have one shape.",
    "sending = dist.isend(x_NC[(r - step) % n], group=group, group_dst=(r + 1) % n) | (r - step) % n → r - step":
        "r − step is never below −n, where Python counts from the end.",
    "sending = dist.isend(x_NC[(r - step - 1) % n], group=group, group_dst=(r + 1) % n) | (r - step - 1) % n → r - step - 1":
        "r − step − 1 is never below −n, where Python counts from the end.",
    "dist.recv(x_NC[(r - step - 1) % n], group=group, group_src=(r - 1) % n) | (r - step - 1) % n → r - step - 1":
        "r − step − 1 is never below −n, where Python counts from the end.",
}
