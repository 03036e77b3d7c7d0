"""The core of the engine.

- values: `resources`, `values`, `plan`
- objects: `jobs`, `nodes`, `podgroups`, `subgroups`, `reading`, and `state`, which follows a cluster
- plugin interface: `hooks`, `node_hooks`, `requirements`, and `static` for answers that depend on objects alone
- a cycle: `session` combines the plugins' answers, `statement` makes moves that can be undone exactly
"""
