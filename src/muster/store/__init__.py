"""The one protocol that controllers and the live scheduler see: get, list, watch, patch, bind, evict, event; with
it the work queue and the clock.
"""
