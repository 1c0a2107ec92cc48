"""What a hospital lets out, what protects it, and what it costs.

Read in this order:

* :mod:`policy`: what the hospital allows; it wins over every request;
* :mod:`gate`: which rules may leave, by the patients behind them;
* :mod:`mechanisms`: noise on histograms; :mod:`masks`: sums of which only the total is seen;
* :mod:`identity`: who signed what;
* :mod:`ledger`: what left; :mod:`budget`, :mod:`bill`: what it costs, before and after;
  :mod:`blur`: what the noise leaves of cut-offs.
"""
