"""The scheduler on a live cluster: a cache that follows the watches, the loop that decides when something changed, the
binder that carries plans out and survives a crash between any two calls, what objects are told, and its metrics.

Two threads: the *cycle thread* owns the engine's state and decides; the event loop does everything that waits (watches,
lease, bindings, probes). They talk through the cache's inbox and through plans, never through shared objects.
"""
