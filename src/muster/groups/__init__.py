"""The rules of node group management as pure functions, without I/O, which the scheduler's plugin and groupctl share.

What belongs here: the members of a group (`membership`, `grouping`), the application and the unit of a pod, and
its binding to policies (`applications`, `custom_applications`), policies (`propagation`), the division of replicas
(`division`, `quota_usage`), what the webhook writes into a pod (`assignment`), and the editions of pod
templates (`override`). Reading and writing a cluster belongs to `muster.groupctl`.
"""
