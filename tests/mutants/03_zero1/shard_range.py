"""Wrong ranges."""

from tests.mutants import change

START, STOP = "min(rank * length, n_elements)", "min((rank + 1) * length, n_elements)"

CHANGES = (
    change("floats", "-(-n_elements // n_ranks)", "__import__('math').ceil(n_elements / n_ranks)"),
    change("tail lost", "-(-n_elements // n_ranks)", "n_elements // n_ranks"),
    change("lengths differ by one", "length = -(-n_elements // n_ranks)", "length, more = divmod(n_elements, n_ranks)",
           START, "rank * length + min(rank, more)", STOP, "(rank + 1) * length + min(rank + 1, more)"),
    change("last part alone cut", START, "rank * length", STOP,
           "n_elements if rank == n_ranks - 1 else (rank + 1) * length"),
    change("beyond the end", START, "rank * length", STOP, "(rank + 1) * length"),
    change("start beyond the end", START, "rank * length"),
    change("start before the end", START, "min(rank * length, n_elements - 1)",
           STOP, "min(min(rank * length, n_elements - 1) + length, n_elements)"),
    change("length for stop", STOP, f"{STOP} - {START}"),
    change("elements", f"{START}, {STOP}", "torch.arange(n_elements).tensor_split(n_ranks)[rank]"),
    change("rest to the last", "-(-n_elements // n_ranks)", "n_elements // n_ranks", STOP,
           "n_elements if rank == n_ranks - 1 else (rank + 1) * length"),
    change("one too many", "-(-n_elements // n_ranks)", "n_elements // n_ranks + 1"),
    change("edges rounded", START, "-(-rank * n_elements // n_ranks)", STOP, "-(-(rank + 1) * n_elements // n_ranks)"),
    change("zero for the end", f"return {START}, {STOP}",
           f"return ({START}, {STOP}) if rank * length < n_elements else (0, 0)"),
    change("last included", STOP, f"{STOP} - 1"),
)
