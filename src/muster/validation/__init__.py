"""The validation rules that `muster validate` and the admission webhook share.

`object_checks` checks the fields of one object. `queues`, `pod_groups`, `pods` and `policies` check a cluster in a
session with the configured plugins, before its first cycle. `locator` adds the file and line to each finding.
"""
