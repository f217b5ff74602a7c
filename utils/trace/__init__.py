"""What ranks did, as plain data.

In a rank: traced_group is the process group that tells the recorder of every call and wait (new_group, futures and backends:
of what would go past it). spans: names for stretches of its work. memory: tensors held, by category. threads: which of them
may still make a call. of_rank: what all of them share. user_code: whose lines are the reader's. wire: bytes by the system's
count. In the notebook: reports reads what ranks said. calls: what each operation sends, and what is said of a call. pairing:
which calls of different ranks meet. trace: what the ranks said to each other. holdings: what a rank holds of each layer in a
step. source: lines as their reader knows them.
"""
