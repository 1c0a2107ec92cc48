"""``python -m fedrulefit.federation.carrier``: what a keeper starts."""

from fedrulefit.federation.carrier.process import main

main()
