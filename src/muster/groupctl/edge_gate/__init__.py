"""The edge gate: an API server's pods without those whose application is not bound to its policies yet.

`verdicts` says whether a pod is sent, `editions` whether it is in its group's edition; `changes` is the log of pods
released or held by a change of their application, `releases` fills it; `sent_pods` remembers which pods were sent.
`connections` reads requests and writes answers, `heads` checks and parses heads, `targets` reads paths, `callers` and
`front_proxy` say in whose name a request goes on, `upstream` asks the API server. `proxy` answers: `listing` and
`watching` filter what comes back, `tunnels` joins connections that are upgraded. `service` runs it all.
"""
