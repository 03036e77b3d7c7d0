"""Topology domains: trees, sources, demand and capacity."""
