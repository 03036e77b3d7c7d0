"""Node group management on a live cluster: controllers, scheduler extender, admission webhook and edge gate.

The rules are the pure functions of `muster.groups`. What the four components share is here: the application of a pod
(`owners`), the group of a node and the number of pods of a unit per group (`grouping_cache`), and whether another
component is alive (`liveness`). What only one component needs belongs to its sub-package.
"""
