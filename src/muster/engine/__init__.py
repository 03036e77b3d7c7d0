"""One scheduling cycle, pure: a snapshot held as columns, the hooks plugins implement, placement, the statement
with its exact undo, and the trace that explains every decision.
"""
