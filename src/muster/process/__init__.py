"""The process kit of the long-running components: settings, access, leadership, probes, logs, certificates."""
