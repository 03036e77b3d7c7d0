"""Replays the jobs of a trace through the scheduler in virtual time, and computes what trace studies report."""
