"""The scheduler extender: kube-scheduler asks it on which nodes a pod may run, and it answers by PropagationPolicies.

`cluster_index` indexes the objects that matter, `reservations` tracks pods between filter and binding and those that
were refused because of reservations, `group_scheduling` answers filter, prioritize and preempt, `plugin_scores` asks
muster's plugins, `server` serves HTTP, and `service` runs all of it and answers while this replica may not decide.
"""
