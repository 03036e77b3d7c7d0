"""Reconcile loops over the store: what is there is brought to what was asked for, and told in statuses and events.

A controller follows the store's watches. `run` does all that is to be done at this moment and says whether anything
was written; `next_time` says when it has something to do without anybody else's doing. `nodegroup`, `propagation` and
`override` are the three of node group management, `podgroups` and `queue_gates` those of pods that name no PodGroup or
wait at Volcano's gate; the other files are what they have in common.
"""
