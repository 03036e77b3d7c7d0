"""Every filter and every score of the built-in plugins is what it declares, in any configuration.

The checks are those that `muster.testing.check_plugin` offers to the authors of other plugins.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muster.cycle.scheduler import Scheduler
from muster.engine.core.session import Session
from muster.plugin_checks import terms
from strategies.clusters import NOW, Drawn, clusters
from strategies.configurations import configurations
from strategies.profiles import examples

NODE_TERMS = (
    "predicates", "nodeorder", "binpack", "nodegroup", "topology910", "resource-strategy-fit", "propagation",
)  # fmt: skip


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    config = draw(configurations(plugins=NODE_TERMS, actions=(("allocate",),)))
    return Scheduler(config).session(draw(clusters()).state(), NOW)


@given(sessions(), st.data())
@examples(80)
def test_an_answer_on_a_slice_is_the_answer_on_the_whole(session: Session, data: st.DataObject) -> None:
    terms.check_slices(session, Drawn(data.draw))


@given(sessions(), st.data())
@examples(150)
def test_an_answer_for_a_single_column_is_the_answer_for_many(session: Session, data: st.DataObject) -> None:
    terms.check_single_columns(session, Drawn(data.draw))


@given(sessions(), st.data())
@examples(120)
def test_answers_change_no_further_than_their_scope_reaches(session: Session, data: st.DataObject) -> None:
    terms.check_scopes(session, Drawn(data.draw))


@given(sessions(), st.data())
@examples(150)
def test_hypothetical_copies_are_answered_like_real_ones(session: Session, data: st.DataObject) -> None:
    terms.check_copies(session, Drawn(data.draw))


@given(sessions(), st.data())
@examples(80)
def test_pods_of_one_signature_get_one_answer(session: Session, data: st.DataObject) -> None:
    terms.check_signatures(session, Drawn(data.draw))


@given(sessions(), st.data())
@examples(50)
def test_a_term_that_skips_a_pod_makes_no_difference_for_it(session: Session, data: st.DataObject) -> None:
    terms.check_skips(session, Drawn(data.draw))
