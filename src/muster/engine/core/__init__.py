"""The core of the engine: cluster state, sessions, statements, placement."""
