"""Runs that write files of different sizes: what components, objects and the metadata server do to them."""

from dataclasses import replace

import numpy as np
import pytest

from forebay.decide.registry import find
from forebay.decide.stripe.view import PLAIN, Features
from forebay.model.layout import KIB, MIB, Component, Layout
from forebay.simulate.striping.flows import throughput
from forebay.simulate.striping.machine import LOCAL, Program
from support.mixtures import ON_MDT, Files, MetadataServer, Mixture, repeat

GIB = 1 << 30
NO_COST = MetadataServer().scale(0.0, 1.0)
WIDE = replace(LOCAL, targets=16, node_bandwidth=1e11, process_bandwidth=1e10)
LARGE = Files(number=1, size=20 * GIB, block=8 * MIB, shared=True)
SMALL = Files(number=20_000, size=50 * KIB, block=50 * KIB)
FIRST = Component(end=MIB, count=1)


def mixture(*files: Files, processes: int = 16, metadata: MetadataServer = MetadataServer()) -> Mixture:  # noqa: B008
    return Mixture(name="mix", machine=WIDE, metadata=metadata, processes=processes, files=files)


@pytest.mark.parametrize("count", [1, 4, 16])
def test_one_shared_file_of_one_component_is_as_fast_as_in_the_study(count: int) -> None:
    program = Program(name="x", block=8 * MIB, shared=True, total_bytes=20 * GIB)
    expected = throughput(WIDE, program, 16, Layout(count=count, size=8 * MIB, start=0))
    assert mixture(LARGE, metadata=NO_COST).throughput(Layout(count=count, size=8 * MIB)) == pytest.approx(
        expected, rel=0.01
    )


def test_empty_objects_cost_small_files_time_and_components_save_it() -> None:
    run = mixture(SMALL)
    one, many = run.throughput(Layout(count=1)), run.throughput(Layout(count=8))
    assert many < 0.8 * one
    assert run.throughput(Layout(count=8, before=(FIRST,))) == pytest.approx(one)


def test_a_large_file_loses_hardly_anything_by_a_small_first_component() -> None:
    run = mixture(LARGE)
    plain, several = Layout(count=8, size=4 * MIB), Layout(count=8, size=4 * MIB, before=(FIRST,))
    assert run.throughput(several) == pytest.approx(run.throughput(plain), rel=0.01)
    long = Layout(count=8, size=4 * MIB, before=(Component(end=16 * GIB, count=1),))
    assert run.throughput(long) < 0.3 * run.throughput(plain)


def test_small_files_on_the_mdt_need_no_target_and_are_limited_by_its_bandwidth() -> None:
    on_mdt = Layout(count=1, before=(Component(end=64 * KIB, count=0),))
    run = mixture(SMALL)
    assert run.throughput(on_mdt) > 1.2 * run.throughput(Layout(count=1))
    slow = mixture(SMALL, metadata=MetadataServer(bandwidth=1e7))
    assert slow.throughput(on_mdt) == pytest.approx(1e7, rel=0.1)


def test_layouts_that_need_more_targets_than_there_are_do_not_fit() -> None:
    with pytest.raises(ValueError, match="does not fit on 16 targets"):
        mixture(LARGE).throughput(Layout(count=16, before=(FIRST,)))


def test_forebay_is_faster_with_components_and_the_same_without_a_reason_for_them() -> None:
    forebay = find("stripe", "forebay").decide

    def last(run: Mixture, features: Features) -> float:
        return run.throughput(repeat(run, forebay, features, 6, 0.05, np.random.default_rng(1))[-1])

    mixed = mixture(LARGE, replace(SMALL, number=60_000))
    assert last(mixed, ON_MDT) > 1.1 * last(mixed, PLAIN)
    assert last(mixture(LARGE), ON_MDT) == last(mixture(LARGE), PLAIN)
