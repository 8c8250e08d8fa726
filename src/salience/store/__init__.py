"""Where memories are kept: one contract, several stores."""
