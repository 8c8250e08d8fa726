"""Several memories in one text: the summarisers that ship."""
