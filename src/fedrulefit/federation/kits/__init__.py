"""Who takes part: the consortium's file, the kits made from it, the charter of both."""
