"""The controllers of node group management on a live cluster: `muster controllers`.

`rounds` lets them have their turns in a thread of their own, `webhook` sees whether one is alive that makes new pods
right, `service` is the running part.
"""
