"""Pipeline schedules.

schedule: a schedule as plain data. faults: what can be wrong with one. one_rank: the faults in the list of one rank.
race: the schedule race.
"""

from utils.schedules.schedule import (
    Fault,
    Schedule,
    Shape,
    Step,
    Timetable,
    measured_times,
    order_of,
    parse_schedule,
    shape_of,
)

__all__ = ["Fault", "Schedule", "Shape", "Step", "Timetable", "measured_times", "order_of", "parse_schedule", "shape_of"]
