"""The actions of a scheduling cycle: enqueue, allocate, backfill, reclaim and preempt, each in a module of its name."""
