"""Wrong ways to take turns."""

import time

import torch.distributed as dist

from grader.exercises.references import change, mistake

RECEIVE = "    if r > 0:\n        dist.recv(token, group=group, group_src=r - 1)\n"
SEND = "    if r < n - 1:\n        dist.send(token, group=group, group_dst=r + 1)\n"
FROM_RANK_0 = ("group_src=r - 1", "group_src=0")
CHANGES = (
    change("passed on too early", f"    say(text)\n{SEND}", f"{SEND}    say(text)\n"),
    change("order by luck", *FROM_RANK_0, SEND, "    for peer in range(1, n) if r == 0 else ():\n"
           "        dist.send(token, group=group, group_dst=peer)\n"),
    change("detour", *FROM_RANK_0, SEND, "    if r > 0:\n        dist.send(token, group=group, group_dst=0)\n"
           "    for peer in range(1, n) if r == 0 else ():\n        dist.send(token, group=group, group_dst=peer)\n"
           "        dist.recv(token, group=group, group_src=peer)\n"),
    change("cycle of receives", "if r > 0:", "if n > 1:", "if r < n - 1:", "if n > 1:", "r - 1)", "(r - 1) % n)", "r + 1)",
           "(r + 1) % n)"),
    change("send without receive", "if r < n - 1:", "if n > 1:", "r + 1)", "(r + 1) % n)"),
    change("not said once", "say(text)", "if r == n - 1:\n        say(text)"),
    change("silent in a later call", "say(text)", "if 'spoken' not in vars(speak_in_order):\n        say(text)\n"
           "    speak_in_order.spoken = True"),
    change("result elsewhere", "say(text)", "said = say(text)", SEND, f"{SEND}    return said\n"),
    change("no such rank", "r < n - 1", "r == 0 or r < n - 1"),
    change("group ignored", "(group)", "()", "group=group, group_", ""),
)

EQUIVALENT = {
    "token = torch.zeros(1) | 1 → 0": "The token's size is free, and an empty message is heard too.",
    "token = torch.zeros(1) | 1 → 2": "The token's size is free.",
}


@mistake("does not wait")
def sleeps(say, text, group):
    time.sleep(0.05 * dist.get_rank(group))
    say(text)


@mistake("not a token")
def takes_turns_by_barrier(say, text, group):
    for turn in range(dist.get_world_size(group)):
        if turn == dist.get_rank(group):
            say(text)
        dist.barrier(group)
