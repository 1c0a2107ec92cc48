"""What a fit of each kind of outcome costs, and how well it predicts, beside peers.

``python -m benchmarks.outcomes cost`` prints its table, and so does ``dispersion``, on what a
learnt dispersion of counts gains. ``python -m benchmarks.outcomes accuracy`` leaves a folder from
which ``python docs/make_results.py FOLDER`` fills a page.
"""
