"""Reports in HTML: the views, and the static pages that are made of them.

The function of a view takes a result and returns a fragment of HTML, or "" if there is nothing to show. The
dashboard serves the same fragments: they have no script and no inline style, only classes of `report.css`. Every text
from the input passes `muster.model.markup.escape`. The same result gives the same bytes. What a script may attach to
has the attribute `data-pod`, `data-node`, `data-queue` or `data-cycle`.
"""
