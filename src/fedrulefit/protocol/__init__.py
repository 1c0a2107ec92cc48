"""The protocol, without I/O: messages, their bytes, the site, the coordinator.

``reply = site.handle(request)`` and ``coordinator.step(replies)`` are plain
method calls; an engine (:mod:`fedrulefit.engines`) moves the messages.
"""
