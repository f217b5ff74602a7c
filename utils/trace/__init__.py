"""What ranks did, as plain data.

recorder: sees every call and wait inside a rank. backends: passes on to it what would go past it. calls: what each operation
sends. pairing: which calls of different ranks meet. reports: how those travel. spans: names for stretches of a rank's work.
trace: what the ranks said to each other.
memory: tensors held, by category. holdings: what a rank holds of each layer in a step. wire: bytes by the system's count.
source: lines as the notebook's reader knows them.
"""
