"""The edge gate: an API server's pods without those whose application is not bound to its policies yet.

`verdicts` says whether a pod is sent, `editions` whether it is in its group's edition; `changes` is the log of pods
released or held by a change of their application, `releases` fills it. `targets` reads requests, `listing` and
`watching` filter what comes back, `upstream` asks the API server, `callers` says in whose name, `proxy` answers,
`door` tunnels what is no HTTP for long, `service` runs it all.
"""
