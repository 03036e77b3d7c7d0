"""The store in memory: watch semantics, simulated workload controllers and kubelet, manifests and snapshots.

`embedded.EmbeddedCluster` is the whole: a store, a virtual clock, the controllers and the kubelet, and the way a plan
is carried out on them.
"""
