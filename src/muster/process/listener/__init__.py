"""The HTTP(S) listener of the parts that others call, and the limits that every listener of muster keeps.

`limits` counts connections and the bytes of request bodies and says which connection is closed when there are too many;
it never waits, so that threads and event loops can both use it. `serving` is the listener itself.
"""
