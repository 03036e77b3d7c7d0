"""What answers over HTTP: the scheduler extender of node group management, the admission webhook, the edge gate."""
