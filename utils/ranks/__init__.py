"""Starts ranks, hears them, ends them.

run: run_ranks and its Run. job: what is asked of a run, and what came of it. launcher: starts the ranks, follows them, ends
them. watch: when to listen, and whether a standstill lasts. place: where they run and meet, how they begin and end. server:
a clean parent that they are forked from. pages: its memory, made quick to fork. fresh_process: what a rank takes over, and
what is its own. sessions: ends what ranks have started. apart: keeps interrupts from cutting anything in half. worker: what
runs inside a rank. error_facts: an exception as it is reported. channel: messages between ranks and launcher, both ends.
readiness: waits for many pipes at once. payload: functions, inputs and results on their way. output: what ranks print.
torchrun: the same beyond one machine. live: what ranks do while they take long, below the cell. slow_link: holds the bytes
between ranks back, so that a machine's own memory can stand for a network.
"""
