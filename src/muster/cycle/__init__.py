"""Turns a state and a configuration into a plan: the registry of plugins and actions, the plugin host, and the
scheduling cycle.
"""
