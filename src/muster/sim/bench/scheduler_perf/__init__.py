"""`muster bench scheduler-perf`: cases of Kubernetes' own scheduler benchmark (test/integration/scheduler_perf).

`templates` decodes the objects of its templates, `clusters` puts them together, `cases` lists the cases with the
published floors, and `case` measures one of them.
"""
