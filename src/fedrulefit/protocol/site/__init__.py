"""A hospital's side of the protocol: answers what is asked, if it may.

Every request goes through the same four rooms, each of which can be read by itself:

==============  =============================================================
``door``        is it for us, is it its turn, does the policy allow it;
                ``joining``: may the run be joined at all;
                ``handed``: does what is handed out follow from what was sent
``work``        the answer, from the site's patients
``review``      what is about to leave, in words, for a person to accept
``diary``       what is remembered, and what the ledger tells
==============  =============================================================
"""

from fedrulefit.protocol.site.door import RUN_NAME
from fedrulefit.protocol.site.site import Approver, Site

__all__ = ["RUN_NAME", "Approver", "Site"]
