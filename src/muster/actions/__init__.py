"""What a cycle does, one file a verb: enqueue, allocate, backfill, reclaim, preempt."""
