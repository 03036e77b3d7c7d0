"""reclaim: a queue below its deserved share takes capacity from queues that hold more than theirs.

Queues are taken in queue order, their jobs in job order. A job claims its minimum as a whole, and pods above it one by
one (`actions.claims`). `compatibility: volcano` has Volcano's rules instead.
"""

from __future__ import annotations

from muster.actions import volcano_reclaim
from muster.actions.claim_queue import ClaimQueue
from muster.actions.claims import Claims
from muster.engine.core.session import Session
from muster.engine.evictions.claim import RECLAIM

NAME = RECLAIM


def run(session: Session) -> None:
    if session.volcano:
        volcano_reclaim.run(session)
        return
    claims = Claims(session, RECLAIM)
    if not claims.names_no_victims:
        ClaimQueue(session, RECLAIM).serve_all(claims.serve)
