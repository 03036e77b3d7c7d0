"""Controllers on a live cluster: `muster controllers` (`service`) and `muster pod-groups` (`pod_groups`).

`rounds` lets them have their turns in a thread of their own, `term` is one term of the replica that works, `webhook`
sees whether one is alive that makes new pods right.
"""
