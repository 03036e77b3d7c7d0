"""The HTTP(S) listener of the components that serve requests, and the limits of every listener of muster.

`limits` counts connections and the bytes of request bodies and chooses the connection to close when there are too many;
it never blocks, so that threads and event loops can both use it. `http_listener` is the listener itself.
"""
