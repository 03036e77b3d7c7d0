"""The simulator, which is the scheduler's own code on the embedded cluster: simulate, explain, compare, and
reports.
"""
