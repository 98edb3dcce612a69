"""The target `policies`: runs that have copies, reads from peers, or neither."""

from integration.test_policies import EPOCHS, N_FILES, make_project
from tierscope.tables import read_table


def test_policies_of_every_kind_are_compared_by_one_command(tmp_path):
    policies = ["none", "monarch", "adhoc"]
    training = {"epochs": EPOCHS, "shuffle": "local"}
    project = make_project(tmp_path / "project", policies, training=training)
    output = project.snakemake("policies")
    table = read_table(
        project.path("policies", "policy_epochs.parquet"), "policy_epochs"
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
        assert project.path("policies", name).read_text() in output
    assert project.path("policies", "claims.md").stat().st_size > 0
    assert project.path("figures", "policies.png").stat().st_size > 10_000
