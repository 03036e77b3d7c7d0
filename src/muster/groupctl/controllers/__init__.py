"""Controllers: they reconcile the objects of a Store with their specs, and report in statuses and events.

A controller follows the store's watches. `run` does everything that is due now and returns whether it wrote anything;
`next_time` returns when it will have work without a change of an object. `nodegroup`, `propagation` and `override` are
the controllers of node group management. `podgroups` and `queue_gates` are for pods that name no PodGroup or wait at
Volcano's scheduling gate. The other modules are shared. `service` and `pod_group_service` run them as processes.
"""
