"""The admission webhook: assigns a node group to each new pod, applies its edition, and rejects invalid objects.

`review` reads, answers and writes AdmissionReviews, `group_slots` counts the pods of a unit per group, `mutator`
computes the pod for its group (as a JSON patch), `validator` validates, `gate_removal` removes the scheduling gate of
pods that waited for their policies, `reassignment` evicts pods that do not fit into their group, `registration` writes
the webhook configurations, `service` runs all of it.
"""
