"""State and configuration in, plan out: the registry of plugins and actions, their typed arguments, and the cycle
that runs them.
"""
