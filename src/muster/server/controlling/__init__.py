"""The controllers of node group management on a live cluster: `muster controllers`.

`rounds` lets them have their turns in a thread of their own, `service` is the running part.
"""
