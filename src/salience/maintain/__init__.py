"""The stories that keep a store in order: versions, erasure, tiers, reflection, upkeep, models, repair."""
