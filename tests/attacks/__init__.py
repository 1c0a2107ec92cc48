"""Attacks: each succeeds against a weakened twin, and fails against the real thing."""
