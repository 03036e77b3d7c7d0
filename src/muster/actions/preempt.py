"""preempt: inside one queue, a job takes capacity from jobs of lower priority, then a job from its own pods.

Queues are taken in queue order, their jobs in job order. A job claims its minimum as a whole, and pods above it one by
one (`actions.claims`). What reclaim could serve is left to reclaim. `compatibility: volcano` has Volcano's rules
instead.
"""

from __future__ import annotations

from muster.actions import volcano_preempt
from muster.actions.claim_queue import ClaimQueue
from muster.actions.claims import Claims
from muster.engine.core.jobs import Job
from muster.engine.core.session import Session
from muster.engine.evictions.claim import PREEMPT, RECLAIM

NAME = PREEMPT


def run(session: Session) -> None:
    if session.volcano:
        volcano_preempt.run(session)
        return
    claims = Claims(session, PREEMPT)
    if claims.names_no_victims:
        return
    reclaim = _later_reclaim(session)

    def serve(job: Job) -> bool:
        if reclaim is not None and reclaim.could_serve(job):
            return False
        return claims.serve(job) or (session.pipelined(job) and claims.serve(job, within=True))

    ClaimQueue(session, PREEMPT).serve_all(serve)


def _later_reclaim(session: Session) -> Claims | None:
    """Returns the claims of reclaim if reclaim runs after preempt; if it ran before, it has served what it could."""
    actions = session.config.actions
    if RECLAIM not in actions or actions.index(RECLAIM) < actions.index(PREEMPT):
        return None
    reclaim = Claims(session, RECLAIM)
    return None if reclaim.names_no_victims else reclaim
