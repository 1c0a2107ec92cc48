"""Attacks that once worked: each succeeds on a weakened twin, and fails on the real thing."""
