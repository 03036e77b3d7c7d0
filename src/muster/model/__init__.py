"""Typed, partial Kubernetes objects, quantities, selectors, pod states, findings, and the reader of YAML text. Nothing
here does I/O or depends on scheduling.
"""
