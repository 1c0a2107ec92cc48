"""Hospitals run it between themselves: kits and charters, processes, carriers, runs, audits."""
