"""What every long-running part needs: access, leadership, probes, logs, certificates, configuration."""
