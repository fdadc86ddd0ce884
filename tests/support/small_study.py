"""A whole study in less than 60 lines: how far the means of dice fall from 3.5."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import typer

from forebay.show.figures.sheet import Sketch, panels
from forebay.show.options import Seed
from forebay.show.report import Report, Section, Table
from forebay.show.rows import Rows, records, select
from forebay.studies.command import StudyCommand
from forebay.studies.finished_pieces import Store
from forebay.studies.study import Study


@dataclass(frozen=True, slots=True, kw_only=True)
class DiceStudy(Study[Rows]):
    most: int
    seed: int
    name = "dice"

    def settings(self) -> dict[str, object]:
        return {"seed": self.seed}

    def keys(self) -> list[str]:
        return [f"dice-{count}" for count in range(1, self.most + 1)]

    def run_piece(self, key: str) -> Rows:
        count = int(key.removeprefix("dice-"))
        thrown = np.random.default_rng([self.seed, count]).integers(1, 7, (50, count))
        return np.array([(count, mean) for mean in thrown.mean(axis=1)], dtype=[("dice", "i8"), ("mean", "f8")])

    def collect(self, pieces: Store) -> Rows:
        return np.concatenate([pieces.get(key) for key in self.keys()])

    def report(self, results: Rows) -> Report:
        mean = select(results, dice=self.most)["mean"].mean()
        said = [f"{self.most} dice are {mean:.2f} on average."]
        means = [Table("Throws", ("dice", "mean"), [(dice, f"{mean:.2f}") for dice, mean in results.tolist()])]
        return Report(
            about=f"Up to {self.most} dice.", findings=[Section("Findings", said)], summary=means, tables=means,
            records={"throws": records(results)}, document={"conclusions": said}, figures=map(draw_means, [results]),
        )  # fmt: skip


def draw_means(rows: Rows) -> Sketch:
    figure, (axes,) = panels(1)
    axes.plot(rows["dice"], rows["mean"], ".")
    return Sketch(name="figure-01-means", title="Means of dice", caption="A dot for each throw.", figure=figure)


def build(most: Annotated[int, typer.Option(help="Dice at most.")] = 3, seed: Seed = 0) -> DiceStudy:
    """Throw dice."""
    return DiceStudy(most=most, seed=seed)


DICE = StudyCommand(name="dice", build=build, example="forebay study dice --most 5")
