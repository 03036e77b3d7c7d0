"""`muster dashboard`: a read-only page about a cluster, manifests or a replay, with a JSON API.

`sources` and `live` follow a cluster and publish results on a `display`, which makes views and answers of them;
`server` serves these behind `access` and `listener`; `worker` computes explanations, earlier cycles and other decisions
in processes of its own. docs/decisions/0023-dashboard.md has the reasons.
"""
