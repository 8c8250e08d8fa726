"""Programs that measure, load and torture Salience: `python -m bench.NAME` from the root of the repository."""
