"""The coordinator's process: it leads the runs, and has no network."""
