"""The scheduling engine: one cycle over a snapshot, without I/O, clock or randomness.

- `core`: resources, jobs, nodes, cluster state, the plugin interface, sessions and statements
- `placement`: finds nodes for tasks, divides nodes into sets, explains decisions
- `queues`: accounts and limits of queues
- `evictions`: claims, victims, disruption budgets, promises of freed capacity
- `pod_rules`: node selectors, taints, host ports, pod affinity and topology spread
- `volumes`: PersistentVolumeClaims and the volumes that nodes can reach
- `domains`: topology domains (Topology, HyperNode) and their capacity
- `devices`: boards of chips whose wiring matters, and the fragmentation of GPUs
"""
