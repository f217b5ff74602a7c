"""nbgrader's side.

release: solutions/ to notebooks/. broken: programs with a bug, for students. folder: who handed what in. reading: a
submitted file as a notebook. splice: a student's solutions in the instructor's notebook. alarms: what a person should look
at. suspicion: code that no exercise needs. mark: marks one submission. limited: the same in a process with limits.
feedback: a verdict as a student gets it back. autograde: the steps that nbgrader runs. batch: many submissions side by
side. cluster: the workers that mark them. journal: what is done so far. gradebook: its one writer. scaffold: begins a new
exercise.
"""
