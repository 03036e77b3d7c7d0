"""SECURITY.md states the rights of every account as the manifests grant them."""

from __future__ import annotations

from account_rights import BEGIN, END, table
from documents import ROOT
from muster.cli.install import PARTS

PAGE = (ROOT / "SECURITY.md").read_text("utf-8")


def test_the_table_of_rights_is_that_of_the_manifests() -> None:
    stated = PAGE[PAGE.index(BEGIN) : PAGE.index(END) + len(END)]
    assert stated == table(), "run python tests/documents.py"


def test_every_account_is_described() -> None:
    for part in PARTS.values():
        assert f"**{part.name}**" in PAGE, part.name


def test_no_account_reads_secrets_or_deletes_pods() -> None:
    rows = [row for row in table().splitlines() if row.startswith("| muster")]
    assert rows
    for row in rows:
        _, account, verbs, what, *_ = (cell.strip() for cell in row.split("|"))
        assert "secrets" not in what and "pods/exec" not in what and "*" not in what and "*" not in verbs, row
        assert not ("delete" in verbs and "pods" in what.split(", ")), row
