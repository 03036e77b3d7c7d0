"""The edge gate: a proxy before the API server that hides pods whose application is not bound to its policies yet.

`visibility` decides whether a pod is visible to edge nodes and matches its group's edition, and `change_log` records
which pods a change of their application shows or hides. `connections` reads requests and writes responses,
`request_head` checks and parses heads, `targets` reads paths, `authentication` decides with whose identity a request is
forwarded, `upstream` calls the API server. `proxy` handles requests: `list_filter` and `watch_filter` filter the
responses, `tunnels` forwards upgraded connections. `service` runs all of it and answers POST /gate.
"""
