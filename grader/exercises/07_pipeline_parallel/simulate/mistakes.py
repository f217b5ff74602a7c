"""Wrong simulators."""

from grader.exercises.references import change

START, FREE_AGAIN = "max([free_at[rank], *arrivals])", "times[step] = start, free_at[rank]"
RATE = "1 - busy / (n_ranks * makespan)"

CHANGES = (
    change("hops forgotten", "times[need][1] + hop_time", "times[need][1] + 0.0"),
    change("hops keep the sender busy", FREE_AGAIN, f"""{FREE_AGAIN}
                receiver = step.stage + (1 if step.kind == "F" else -1)
                if n_ranks > 1 and step.kind != "W" and 0 <= receiver < n_stages:
                    free_at[rank] += hop_time"""),
    change("hops within a rank", "need.stage % n_ranks != rank", "need.stage != step.stage"),
    change("several at once", START, "max([0.0, *arrivals])"),
    change("starts late", START, "max([*free_at, *arrivals])"),
    change("relative to ideal", RATE, "n_ranks * makespan / busy - 1"),
    change("bubble rate", RATE, "1 - busy / makespan"),
    change("gone at I", '{"F": 1, "I": 0}', '{"F": 1, "W": 0}'),
    change("peaks", "get(step.kind, -1)", "get(step.kind, 0)"),
    change("peaks", f"{RATE}, peaks", f"{RATE}, [max(peaks)]"),
    change("makespan", "max(free_at)", 'max(end for step, (_, end) in times.items() if step.kind == "F")'),
    change("starts early", START, "max([free_at[rank], *arrivals[:1]])"),
    change("starts late", START, "max([free_at[rank] + hop_time, *arrivals])"),
    change("makespan", "max(free_at)", "free_at[0]"),
    change("length for end", "return Timetable(times", """return Timetable(
        {step: (start, end - start) for step, (start, end) in times.items()}"""),
    change("peaks", "for step in steps]", "for step in steps if step.stage < n_ranks]"),
    change("bubble rate", RATE, "1 - (busy + hop_time) / (n_ranks * makespan)"),
    change("other names", "return Timetable(times", "return Timetable(dict(list(times.items())[1:])"),
)
