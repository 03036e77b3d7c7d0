"""PersistentVolumeClaims: which are bound, which volume each unbound claim gets on each node, and attach limits."""
