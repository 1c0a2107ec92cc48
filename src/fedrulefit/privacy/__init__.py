"""What protects a release: noise mechanisms, the site's ledger, the bill."""
