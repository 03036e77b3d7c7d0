"""The rules of pods: affinity, spread, selectors, taints, ports, images."""
