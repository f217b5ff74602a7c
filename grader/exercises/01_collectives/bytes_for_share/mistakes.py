"""Wrong sizes from which on a ring is worth its links."""

from grader.exercises.references import change

CHANGES = (
    change("one chunk", "n_ranks * chunk_bytes", "chunk_bytes"),
    change("n−1 chunks", "n_ranks * chunk_bytes", "(n_ranks - 1) * chunk_bytes"),
    change("upside down", "share / (1 - share)", "(1 - share) / share"),
    change("share of the latency", "share / (1 - share)", "share"),
    change("share of the transfer", "share / (1 - share)", "1 / (1 - share)"),
    change("algorithm bandwidth", "chunk_bytes = ", "share *= 2 * (n_ranks - 1) / n_ranks\n    chunk_bytes = "),
    change("latency once", "n_ranks * chunk_bytes", "n_ranks / (2 * (n_ranks - 1)) * chunk_bytes"),
    change("latency once", "n_ranks * chunk_bytes", "n_ranks / (n_ranks - 1) * chunk_bytes"),
    change("phases on one side", "chunk_bytes = ", "share /= 2\n    chunk_bytes = "),
    change("phases on one side", "chunk_bytes = ", "share *= 2\n    chunk_bytes = "),
    change("beta for bandwidth", "/ beta_s_per_byte", "* beta_s_per_byte"),
    change("bytes sent", "n_ranks * chunk_bytes", "2 * (n_ranks - 1) * chunk_bytes"),
    change("power of two", "n_ranks * chunk_bytes", "2.0 ** math.ceil(math.log2(n_ranks * chunk_bytes))"),
    change("power of two", "n_ranks * chunk_bytes", "n_ranks * 2.0 ** math.ceil(math.log2(chunk_bytes))"),
    change("whole chunks", "n_ranks * chunk_bytes", "1.0 * n_ranks * math.ceil(chunk_bytes)"),
    *(change("other units", "n_ranks * chunk_bytes", f"n_ranks * chunk_bytes / {unit}")
      for unit in ("1e3", "1e6", "1e9", "2**10", "2**20", "2**30")),
)
