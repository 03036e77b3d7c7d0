"""Who may be evicted for whom: claims, units, victims, disruption budgets, and promises of freed capacity."""
