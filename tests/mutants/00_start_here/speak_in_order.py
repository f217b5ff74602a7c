"""Wrong ways to take turns."""

import time

import torch
import torch.distributed as dist

from tests.mutants import mutant


@mutant("does not wait")
def sleeps(say, text, group):
    time.sleep(0.05 * dist.get_rank(group))
    say(text)


@mutant("not a token")
def takes_turns_by_barrier(say, text, group):
    for turn in range(dist.get_world_size(group)):
        if turn == dist.get_rank(group):
            say(text)
        dist.barrier(group)


@mutant("passed on too early")
def passes_on_before_speaking(say, text, group):
    r, n = dist.get_rank(group), dist.get_world_size(group)
    token = torch.zeros(1)
    if r > 0:
        dist.recv(token, group=group, group_src=r - 1)
    if r < n - 1:
        dist.send(token, group=group, group_dst=r + 1)
    say(text)


@mutant("order by luck")
def rank_0_lets_all_speak(say, text, group):
    r, n = dist.get_rank(group), dist.get_world_size(group)
    token = torch.zeros(1)
    if r > 0:
        dist.recv(token, group=group, group_src=0)
    say(text)
    if r == 0:
        for peer in range(1, n):
            dist.send(token, group=group, group_dst=peer)


@mutant("detour")
def rank_0_conducts(say, text, group):
    r, n = dist.get_rank(group), dist.get_world_size(group)
    token = torch.zeros(1)
    if r > 0:
        dist.recv(token, group=group, group_src=0)
        say(text)
        dist.send(token, group=group, group_dst=0)
        return
    say(text)
    for peer in range(1, n):
        dist.send(token, group=group, group_dst=peer)
        dist.recv(token, group=group, group_src=peer)


@mutant("cycle of receives")
def nobody_starts(say, text, group):
    r, n = dist.get_rank(group), dist.get_world_size(group)
    token = torch.zeros(1)
    if n > 1:
        dist.recv(token, group=group, group_src=(r - 1) % n)
    say(text)
    if n > 1:
        dist.send(token, group=group, group_dst=(r + 1) % n)


@mutant("sent past the end")
def last_rank_sends_too(say, text, group):
    r, n = dist.get_rank(group), dist.get_world_size(group)
    token = torch.zeros(1)
    if r > 0:
        dist.recv(token, group=group, group_src=r - 1)
    say(text)
    if n > 1:
        dist.send(token, group=group, group_dst=(r + 1) % n)


@mutant("not said once")
def rank_0_speaks_for_all(say, text, group):
    r, n = dist.get_rank(group), dist.get_world_size(group)
    token = torch.zeros(1)
    if r > 0:
        dist.recv(token, group=group, group_src=r - 1)
    if r == n - 1:
        say(text)
    if r < n - 1:
        dist.send(token, group=group, group_dst=r + 1)


@mutant("group ignored")
def passes_round_the_world(say, text, group):
    r, n = dist.get_rank(), dist.get_world_size()
    token = torch.zeros(1)
    if r > 0:
        dist.recv(token, src=r - 1)
    say(text)
    if r < n - 1:
        dist.send(token, dst=r + 1)
