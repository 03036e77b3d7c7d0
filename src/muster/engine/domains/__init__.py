"""Topology domains: the trees of Topologies and HyperNodes, their free capacity, and what a job needs of them."""
