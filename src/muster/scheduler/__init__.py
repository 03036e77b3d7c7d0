"""The scheduler on a live cluster: a cache that follows the watches, the loop that runs cycles, the binder that sends
plans to the API server and survives a crash between any two calls, status patches, and metrics.

There are two threads: the *cycle thread* owns the engine's state and decides; the event loop does everything that waits
(watches, lease, bindings, probes). They communicate through the cache's inbox and through decisions, never through
shared objects.
"""
