"""The placement rules of a pod's spec: node selectors, taints, host ports, pod affinity and topology spread."""
