"""Wrong predictions of a ring's time."""

from grader.exercises.references import change

CHANGES = (
    change("n steps", "n_ranks - 1", "n_ranks"),
    change("n steps", "steps * (alpha_s + ", "phases * n_ranks * alpha_s + steps * ("),
    change("whole array a step", "total_bytes / n_ranks", "total_bytes"),
    change("one phase", "phases * (", "("),
    change("always two phases", ' if op == "all_reduce" else 1', ""),
    change("latency once", "steps * (alpha_s + ", "phases * alpha_s + steps * ("),
    change("latency once", "steps * (alpha_s + ", "alpha_s + steps * ("),
    change("alpha and beta swapped", "(alpha_s + total_bytes / n_ranks * beta_s_per_byte)",
           "(beta_s_per_byte + total_bytes / n_ranks * alpha_s)"),
    change("log2 n steps", "steps * (alpha_s + ", "phases * math.ceil(math.log2(n_ranks)) * alpha_s + steps * ("),
    change("divided by beta", "* beta_s_per_byte", "/ beta_s_per_byte"),
    change("latency forgotten", "alpha_s + ", ""),
    change("bytes forgotten", " + total_bytes / n_ranks * beta_s_per_byte", ""),
    change("chunks of n−1", "total_bytes / n_ranks", "total_bytes / max(n_ranks - 1, 1)"),
    change("milliseconds", "return ", "return 1e3 * "),
    change("log2 n steps", "(n_ranks - 1)", "math.ceil(math.log2(n_ranks))"),
    change("tensor returned", "return ", "return torch.tensor(1.0, dtype=torch.float64) * "),
    change("both ways counted", "total_bytes / n_ranks", "2 * total_bytes / n_ranks"),
    change("both ways counted", "return ", "return 2 * "),
)
