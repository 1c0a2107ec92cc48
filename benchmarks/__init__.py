"""Speed and memory, as ratios against a peer in one run. Run: ``make bench``."""
