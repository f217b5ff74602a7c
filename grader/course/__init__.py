"""nbgrader's side.

Before: release: solutions/ to notebooks/. counts: numbers that stand in several places. scaffold: begins a new exercise.
try_one: tries one.

A course of one's own: course_file: what course.toml says. assigning: a unit's notebook as it assigns it. assign: makes them,
and says what it asks for. changed: and what is otherwise than last time. late: what being late costs. collect: in from a
platform. handback: back to it. points: by hand. platforms: their names of files, and their tables. student_page: what a
student gets back. requests: what she asks to have looked at again.

Folders: folder: who handed what in. files: opens what students handed in. export: marks as CSV. shown: names of others, made
harmless.

One submission: reading: a file as a notebook. handed_in: which of several. cell, source: what a cell is, what it says.
matching: which released cell it is. splice: the student's cells in the instructor's notebook. running: runs them in the
sandbox. mark: marks them. second_look: at what a clock decides. suspicion: code that no exercise needs. alarms: what a
person should look at. feedback: a verdict as a student gets it back. limited: the same in a process with limits.

A class: batch: many submissions side by side. pool, cluster: who marks them, here or elsewhere. journal: what is done so
far. again: marking once more, one exercise alone. gradebook: its one writer. autograde: the steps that nbgrader runs.
"""
