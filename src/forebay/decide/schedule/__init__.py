"""Scheduling policies: which of the waiting jobs start now, and for when the others have a reservation.

A scheduling policy is a kernel `(view, memory, starts)`. It reads the view and calls `start_at(starts, row, when)` for
each job that starts now or gets a reservation. It changes only `memory` and `starts`. The simulator and the live
planner call it after every submission and every end of a job.
"""
