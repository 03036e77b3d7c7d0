"""The security model states the rights of every account as the manifests grant them."""

from __future__ import annotations

from documents import ROOT
from muster.cli.install import PARTS
from oracles.account_rights import BEGIN, END, table

PAGE = (ROOT / "docs" / "concepts" / "security-model.md").read_text("utf-8")


def test_the_table_of_rights_is_that_of_the_manifests() -> None:
    stated = PAGE[PAGE.index(BEGIN) : PAGE.index(END) + len(END)]
    assert stated == table(), "run python tests/documents.py"


def test_every_account_is_described() -> None:
    for part in PARTS.values():
        assert f"**{part.name}**" in PAGE, part.name
