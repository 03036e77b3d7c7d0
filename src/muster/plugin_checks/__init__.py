"""Checks that every plugin must pass, on random clusters; `muster.testing` offers them to plugin authors.

`terms` checks filters and scores (slices, declared scope, batches, signatures), `ledgers` checks that what is undone
leaves no trace, `shortcuts` that caches and batches change no decision. This repository's property tests run the same
functions with hypothesis on all built-in plugins.
"""
