"""The planner's questions, put to llm-analysis and DeepSpeed's estimators; every difference has a formula.

answers.csv: questions, with what the peers answered and their versions. ask: puts them, where the peers are installed.
ours: what the planner says, with its own conventions and with theirs, and why the two differ.
`make bench ARGS=peers` installs the peers for a moment, asks, and compares with answers.csv; `python -m tests.bench_peers`
prints the table from answers.csv, installing nothing; `python -m tests.bench_peers freeze` asks and writes answers.csv.
"""
