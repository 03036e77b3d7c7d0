"""The store in memory: watch semantics, simulated workload controllers and kubelet, manifests and snapshots."""
