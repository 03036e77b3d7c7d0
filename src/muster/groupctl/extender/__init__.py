"""The scheduler extender: kube-scheduler asks it on which nodes a pod may run, and it answers by PropagationPolicies.

`cluster_index` indexes the objects that matter, `reservations` tracks pods between filter and binding, `refused_pods`
those that were refused because of reservations, `group_scheduling` answers filter, prioritize and preempt, `standby`
answers while this replica may not decide, `plugin_scores` asks muster's plugins, `server` serves HTTP.
"""
