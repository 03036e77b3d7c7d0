"""Volcano's ``scheduler.yaml`` as a typed ``Config``: text in, objects and findings out. Which plugins and
arguments exist is told from outside (``Known``), so this room needs no plugin to be imported.
"""
