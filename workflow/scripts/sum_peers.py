"""Sum up a run's stage-in by node and its reads from peers by process and epoch."""

from tierscope.core.description import Run, run_keys
from tierscope.core.files import log_to
from tierscope.core.tables import read_table, write_table
from tierscope.trace.file_records import read_background_records
from tierscope.trace.peers import sum_peers, sum_stage_in

if __name__ == "__main__":
    log_to(snakemake.log[0])
    run = Run.read(snakemake.input.run)
    epochs = read_table(snakemake.input.epochs, "run_epochs")
    node_of = epochs.drop_duplicates("rank").set_index("rank")["node"]
    stage_in = sum_stage_in(
        read_background_records(
            snakemake.input.log,
            run.background_roots,
            read_table(snakemake.input.manifest, "manifest"),
        ),
        node_of,
        run.stage_in_time_s,
    )
    peers = sum_peers(
        read_table(snakemake.input.peer_reads, "peer_reads"),
        node_of,
        range(run.training.epochs),
    )
    keys = run_keys(run, run.point)
    write_table(stage_in.assign(**keys), snakemake.output.stage_in, "stage_in")
    write_table(peers.assign(**keys), snakemake.output.peers, "peers")
