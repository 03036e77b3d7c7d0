"""`muster bench`: named measurements, most of them workloads that are timed from decoded objects to a finished plan.

`measurement` is what they have in common; `__main__` runs one of them in a process; `record` collects and plots.
"""
