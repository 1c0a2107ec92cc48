"""A hospital's process: it answers envelopes, has the patients, and no network."""
