"""Devices whose wiring matters: boards as data, and which chips serve a request best; the fragmentation of GPUs."""
