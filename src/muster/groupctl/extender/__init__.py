"""GroupSchedulingExtender: kube-scheduler asks which nodes a pod may go to, and gets PropagationPolicies' answer.

`view` is the cluster as far as it matters, `reservations` are the pods on their way, `waiting` are those that were
refused because of them, `deciding` answers filter, prioritize and preempt, `http` serves them.
"""
