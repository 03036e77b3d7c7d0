"""Devices whose wiring matters."""
