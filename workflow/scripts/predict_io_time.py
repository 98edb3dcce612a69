"""Predict the I/O time of measured points and compare."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd
from tierscope.analysis.breakdown import break_down, points_of, select_scenario
from tierscope.analysis.origin import origin_of
from tierscope.analysis.predicted_epochs import compare_by_epoch
from tierscope.analysis.prediction import (
    SCALING,
    compare,
    prediction_errors,
    scale_osts,
    summary,
)
from tierscope.core.columns import POINT
from tierscope.core.description import RunDescription
from tierscope.core.files import log_to, write_text
from tierscope.core.output.streams import ending_on
from tierscope.core.studies import Pair
from tierscope.core.tables import read_table, write_table
from tierscope.model.calibration.fit import as_fitted
from tierscope.model.calibration.uncertainty import Uncertainty
from tierscope.model.predict import (
    ANALYTIC,
    MODELS,
    SIMULATION,
    models_of,
    places_words,
    predict,
)
from tierscope.model.predicted_intervals import predicted_intervals
from tierscope.model.programs.description import ModelledProgram
from tierscope.storage.queueing_network import ModelError


def predict_scenario(
    pair: Pair,
    description: RunDescription,
    io_time: pd.DataFrame,
    epochs: pd.DataFrame,
    models: Iterable[str],
    uncertainty: Uncertainty | None = None,
    program: ModelledProgram | None = None,
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Yield rows of tables `predictions` and `predicted_epochs`, model by model.

    Scaling predicts the cache rates that were also measured on the other OST count,
    each by the mean over the repetitions there, for any number of repetitions here.

    Parameters
    ----------
    pair : Pair
        The predicted scenario and the source of its prediction.
    description : RunDescription
        Settings of the scenario, with calibrated devices.
    io_time : DataFrame
        Table ``io_time`` of the measurements, with those of the scaled scenario.
    epochs : DataFrame
        Table ``epochs`` of the measurements.
    models : iterable of str
        Names of models.
    uncertainty : Uncertainty, optional
        That of the calibration: the simulation's predictions have intervals.
    program : ModelledProgram, optional
        The program of the user that reads.
    """
    measured = select_scenario(io_time, pair.scenario)
    breakdown = break_down(measured)
    runs = measured[POINT].drop_duplicates()
    calibration = {
        "calibration": pair.calibration,
        "calibrated_percent": pair.calibrated_percent,
    }
    here = select_scenario(epochs, pair.scenario)
    for model in models_of(description, models):
        predicted = predict(description, points_of(measured), model)
        intervals = None
        if uncertainty is not None and model == SIMULATION:
            intervals = predicted_intervals(predicted, description, uncertainty)
        if program:
            predicted = program.whole_epochs(predicted)
        predictions = compare(
            predicted,
            breakdown,
            model=model,
            epochs=here,
            intervals=intervals,
            **calibration,
        )
        yield predictions, compare_by_epoch(predicted, breakdown, predictions, here)
    if pair.scaled_n_osts is not None:
        other = select_scenario(
            io_time, {**pair.scenario, "n_osts": pair.scaled_n_osts}
        )
        scaled = scale_osts(other, pair.scenario["n_osts"])
        by = ["cache_rate_percent", "epoch", "io_class"]
        means_s = scaled.groupby(by)["time_s"].mean().reset_index()
        shared = runs[runs["cache_rate_percent"].isin(means_s["cache_rate_percent"])]
        predicted, breakdown = means_s.merge(shared), breakdown.merge(shared)
        predictions = compare(predicted, breakdown, model=SCALING, **calibration)
        yield predictions, compare_by_epoch(predicted, breakdown, predictions)


def main() -> None:
    """Predict every studied scenario, write the tables and print the summary."""
    io_time = read_table(snakemake.input.io_time, "io_time")
    epochs = read_table(snakemake.input.epochs, "epochs")
    programs = map(ModelledProgram.read, snakemake.input.programs)
    programs = {one.description.dataset.name: one for one in programs}
    folders = {
        name: Path(devices).parent
        for name, devices in zip(
            snakemake.params.calibrations,
            snakemake.input.get("devices", []),
            strict=True,
        )
    }
    # Simulated runs are not predicted by simulation.
    models = ANALYTIC if snakemake.params.simulated else MODELS
    pairs, parts, places, studies = [], [], {}, snakemake.params.studies
    manifests = snakemake.input.manifests or [[]] * len(studies)
    for study, manifest in zip(studies, manifests, strict=True):
        pair = Pair(**study["pair"])
        program = programs.get(pair.scenario["dataset"])
        description = RunDescription.from_json(study["description"])
        description = program.description if program else description
        devices, uncertainty = [], None
        if pair.calibration in folders:
            folder = folders[pair.calibration]
            devices = folder / "devices.yaml"
            uncertainty = Uncertainty.read(folder / "uncertainty.json")
        description = as_fitted(description, devices, manifest)
        pairs.append(pair)
        known = places_words(description, models_of(description, models))
        places |= {known: None} if known else {}
        parts += predict_scenario(
            pair, description, io_time, epochs, models, uncertainty, program
        )
    if not parts:
        raise ModelError(
            "config: simulate: got true with workers, steps that wait for all, or "
            "computation that varies, expected false: no other model knows them"
        )
    predictions, by_epoch = (
        pd.concat(some, ignore_index=True) for some in zip(*parts, strict=True)
    )
    errors = prediction_errors(predictions, by_epoch, break_down(io_time), pairs)
    write_table(predictions, snakemake.output.predictions, "predictions")
    write_table(by_epoch, snakemake.output.epochs, "predicted_epochs")
    write_table(errors, snakemake.output.errors, "prediction_errors")
    words = f"{summary(errors)}\nSource: {origin_of(snakemake)}.\n"
    words += "".join(f"{line}\n" for line in places)
    words += "".join(f"{program.words}\n" for program in programs.values())
    for name, folder in folders.items():
        found = read_table(folder / "calibration.parquet", "calibration")
        words += f"Calibration {name}: {found['lack_of_fit'].iloc[0]}\n"
    for name, reason in snakemake.params.left_out.items():
        words += f"Calibration {name} left out: {reason}.\n"
    write_text(snakemake.output.summary, words)
    print(words, end="")


if __name__ == "__main__":
    log_to(snakemake.log[0])
    with ending_on(ModelError):
        main()
