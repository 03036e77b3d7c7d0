"""Traces of jobs: readers of published formats and of any CSV or Parquet file, a generator, and lists of nodes."""

from muster.sim.traces.make import Recipe, make_trace
from muster.sim.traces.nodes import read_nodes
from muster.sim.traces.read import read_trace
from muster.sim.traces.table import BoolArray, FloatArray, IntArray, Trace

__all__ = ["BoolArray", "FloatArray", "IntArray", "Recipe", "Trace", "make_trace", "read_nodes", "read_trace"]
