"""Rules that read texts: facts, entities, dates, importance and conflicts; intent, times and speakers of queries."""
