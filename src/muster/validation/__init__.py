"""The validation rules that `muster validate` and the admission webhook share.

`object_checks` checks the fields of one object, with `part_checks` and `volcano_job_checks`. `queues`, `pod_groups`,
`native_groups`, `volcano_jobs`, `pods` and `policies` check a cluster in a session with the configured plugins, before
its first cycle. `locator` adds the file and line to each finding.
"""
