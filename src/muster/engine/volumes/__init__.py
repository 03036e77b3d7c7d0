"""Volumes: claims, matching, provisioning, attach limits."""
