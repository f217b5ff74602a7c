"""Imported by a server of isolated ranks: what it forks from then on begins a process namespace of its own."""

from grader.sandbox.isolation import fork_apart

fork_apart()
