"""`muster ask`: whether a job runs on a cluster now, and the smallest changes that would let it run.

Every answer is a simulation with the scheduler's own code. `question` gives the first answer and the proposals, each
other module but `trial` and `answer` searches for one kind of change.
"""
