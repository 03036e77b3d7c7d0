"""Controllers: they reconcile the objects of a Store with their specs, and report in statuses and events.

A controller follows the store's watches. `run` does everything that is due now and returns whether it wrote anything;
`next_time` returns when it will have work without a change of an object. `nodegroup`, `propagation` and `override` are
the controllers of node group management. `podgroups` has the controller of pods that name no PodGroup.
`service` and `pod_group_service` run the controllers as processes; the latter has the controller that opens Volcano's
scheduling gate, too. The other modules are shared.
"""
