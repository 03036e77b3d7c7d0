"""Node group management as pure functions: which node belongs to which group, how replicas are divided, how a group
overrides a pod template, and what the gate holds back.
"""
