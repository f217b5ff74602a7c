"""What crosses the border of the sandbox, as plain data.

case: what each rank receives. evidence: what came of it. endings: how it ended. traffic: what crossed the network.
parcel: files in one stream.
"""
