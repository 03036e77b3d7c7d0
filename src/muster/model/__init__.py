"""Typed, partial Kubernetes objects, quantities, selectors, pod states, findings, and
the one reader of YAML text. Nothing here does I/O, and nothing here knows of scheduling.
"""
