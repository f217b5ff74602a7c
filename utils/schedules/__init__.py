"""Pipeline schedules.

schedule: a schedule as plain data. faults: what can be wrong with one.
"""

from utils.schedules.schedule import Fault, Played, Schedule, Shape, Step, measured_times, order_of, shape_of, written

__all__ = ["Fault", "Played", "Schedule", "Shape", "Step", "measured_times", "order_of", "shape_of", "written"]
