"""Other stores behind the protocol of a contender; each module imports a library that may not be installed."""
