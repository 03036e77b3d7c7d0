"""The words everything else is said in: typed, partial Kubernetes objects, quantities, selectors, findings, and
the one reader of YAML text. Nothing here does I/O, and nothing here knows of scheduling.
"""
