"""What answers over HTTP: the scheduler extender of node group management."""
