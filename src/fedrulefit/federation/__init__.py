"""Federations of real hospitals.

``kits``, ``site``, ``coordinator`` and ``carrier`` are who takes part and the three processes;
``flare`` is what a carrier sends with. The modules beside them serve several of these.
"""
