"""Sweeps: replays of every combination of configurations, traces, seeds and clusters of a grid, in many processes or on
a Dask cluster, and the comparison of their results."""
