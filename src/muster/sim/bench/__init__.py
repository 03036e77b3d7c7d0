"""`muster bench`: named workloads, timed in-process from decoded objects to a finished plan.

`workloads` creates the objects, `__main__` times one run and checks the result, `record` compares and plots.
"""
