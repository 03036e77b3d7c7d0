"""Processes beside the scheduler: the extender of node group management, the admission webhook and the edge gate, which
answer over HTTP, and `controlling`, which lets controllers work on a live cluster.
"""
