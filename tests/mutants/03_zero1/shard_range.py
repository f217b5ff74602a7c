"""Wrong ranges."""

from tests.mutants import change

START, STOP = "min(rank * length, n_elements)", "min((rank + 1) * length, n_elements)"

CHANGES = (
    change("tail lost", "-(-n_elements // n_ranks)", "n_elements // n_ranks"),
    change("lengths differ by one", "length = -(-n_elements // n_ranks)", "length, more = divmod(n_elements, n_ranks)",
           START, "rank * length + min(rank, more)", STOP, "(rank + 1) * length + min(rank + 1, more)"),
    change("beyond the end", START, "rank * length", STOP, "(rank + 1) * length"),
    change("start beyond the end", START, "rank * length"),
    change("length for stop", STOP, f"{STOP} - {START}"),
    change("elements", f"{START}, {STOP}", "torch.arange(n_elements).tensor_split(n_ranks)[rank]"),
    change("last included", STOP, f"{STOP} - 1"),
)
