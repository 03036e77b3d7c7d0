"""`muster bench`: named workloads, timed in-process from decoded objects to a finished plan.

`workloads` makes the objects, `measure` times one run and checks what came out, `record` compares and draws;
`controllers` is the line of node group management's controllers.
"""
