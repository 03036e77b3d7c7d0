"""`muster dashboard`: a read-only page about a cluster, manifests or a replay, with a JSON API.

`sources` and `live` follow what is shown and publish frames; `frames` renders views and answers; `server` serves them
behind `access` and `listener`; `worker` computes explanations, earlier cycles and other configurations in processes of
their own. docs/decisions/0023-dashboard.md has the reasons.
"""
