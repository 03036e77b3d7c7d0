"""Finds nodes for tasks: cached answers per signature, runs of equal tasks in one step, node sets, explanations."""
