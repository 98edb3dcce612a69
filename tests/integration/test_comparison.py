"""The target `policies`: runs that have copies, reads from peers, or neither."""

import pytest
from integration.test_policies import EPOCHS, N_FILES, make_project
from tierscope.core.tables import read_table


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Return a project in which policies of every kind have been compared."""
    project = make_project(
        tmp_path_factory.mktemp("compared") / "project",
        ["none", "monarch", "adhoc"],
        training={"epochs": EPOCHS, "shuffle": "local"},
    )
    project.output = project.snakemake("policies")
    return project


def test_policies_of_every_kind_are_compared_by_one_command(compared):
    table = read_table(
        compared.path("policies", "policy_epochs.parquet"), "policy_epochs"
    )
    opens = table.sort_values("epoch").groupby("policy")["gfs_opens"].apply(list)
    assert opens.to_dict() == {
        "none": [N_FILES] * EPOCHS,
        # A node may hold half of the files, and reads just its half of them.
        "monarch": [N_FILES] + [0] * (EPOCHS - 1),
        "adhoc": [N_FILES // 2] * EPOCHS,
    }
    assert (table.loc[table["policy"] == "adhoc", "net_read_s"] > 0).all()
    for name in ("summary.txt", "claims.txt"):
        assert compared.path("policies", name).read_text() in compared.output
    assert compared.path("policies", "claims.md").stat().st_size > 0
    assert compared.path("figures", "policies.png").stat().st_size > 10_000
    places = "Figures: results/tiny/figures  Tables: results/tiny/tables  Policies: "
    assert f"\n{places}results/tiny/policies\n" in compared.output  # and no report


def test_damaged_table_of_a_run_is_an_error_until_its_end_is_gone_too(compared):
    """A start looks at the ends of files only, and makes those without it anew."""
    policy, table = "adhoc", "stage_in"
    (damaged,) = compared.path("runs").glob(f"*-{policy}-*/*/rep-0/{table}.parquet")
    collected = compared.path("tables", f"{table}.parquet")
    content = collected.read_bytes()
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:20] + bytes(20) + whole[40:])
    for _ in range(2):
        output = compared.snakemake("policies", expect=1)
        assert f"{damaged.name}: cannot read table {table} (delete the file" in output
    damaged.write_bytes(whole[:500])
    output = compared.snakemake("policies")
    assert f"{damaged.name}: is damaged; a start makes it again." in output
    assert "Measuring" not in output
    assert collected.read_bytes() == content
