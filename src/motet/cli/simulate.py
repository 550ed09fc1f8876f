"""`motet simulate`: run an overlay network in the deterministic simulator, from a scenario file or from seeds."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from motet.cli import output
from motet.model.errors import UsageError

if TYPE_CHECKING:
    from motet.overlay.sim.scenario import Scenario, SeedReport

HELP = "run a peer-to-peer overlay in the deterministic simulator and check what must hold"
EXAMPLES = """\
  motet simulate --seeds 1-1000                 # random scenarios: crashes, joins, partitions, pauses, lost messages
  motet simulate --seeds 1-1000 --jobs 2        # the same on two processes
  motet simulate --seeds 1-100000 --engine spark
  motet simulate --seeds 42 --show              # the schedule of seed 42, as a scenario file, without running it
  motet simulate --scenario outage.yaml --seeds 1-20 --json
  motet simulate --seeds 42 --page run.html     # pictures of the ring, step by step
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--seeds", default="1-10", metavar="A-B", help="one seed or a range; a seed gives the same run everywhere")
    add("--scenario", metavar="FILE", help="a scenario file (YAML or JSON) instead of random scenarios")
    add("--nodes", type=int, default=20, metavar="N", help="nodes of a random scenario (default: 20)")
    add("--engine", choices=["local", "spark"], default="local", help="where the seeds run (default: local)")
    add("--jobs", type=int, default=1, metavar="N", help="worker processes of the local engine (default: 1)")
    add("--show", action="store_true", help="print the scenario of the first seed and do not run it")
    add("--page", metavar="FILE", help="write a page with pictures of the first seed's run, step by step (HTML)")
    add("--json", action="store_true", help="print one JSON object for each seed")


def run(args: argparse.Namespace) -> int:
    from motet.overlay.sim.scenario import load_scenario, random_scenario

    seeds = _seeds(args.seeds)
    if args.jobs < 1 or not 8 <= args.nodes <= 10_000:
        raise UsageError("--jobs must be at least 1, --nodes 8 to 10000", advice="Omit them for the defaults.")
    scenario = load_scenario(Path(args.scenario)) if args.scenario else None
    if args.show:
        output.print_json((scenario or random_scenario(seeds[0], nodes=args.nodes)).to_dict())
        return 0
    if args.page:
        _write_page(Path(args.page), scenario or random_scenario(seeds[0], nodes=args.nodes), seeds[0])
    reports: list[SeedReport] = []
    with output.record_progress("simulating", len(seeds)) as advance:

        def add(report: SeedReport) -> None:
            reports.append(report)
            advance(len(reports))
            _print(report, as_json=args.json)

        if args.engine == "spark":
            _run_on_spark(seeds, scenario, args.nodes, add)
        else:
            _run_here(seeds, scenario, args.nodes, args.jobs, add)
    failed = [report for report in reports if report.shrunk is not None]
    if not args.json:
        output.print_fields({"seeds": len(reports), "with violations": len(failed)})
    return 1 if failed else 0


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    if not first.isdigit() or (last and not last.isdigit()) or ("-" in text and not last):
        raise UsageError(f"--seeds {text!r} is no range", advice="Write one seed, such as 42, or a range: 1-1000.")
    seeds = range(int(first), int(last or first) + 1)
    if not seeds:
        raise UsageError(f"--seeds {text} is empty", advice="The first seed must not be greater than the last.")
    return seeds


def _run_here(
    seeds: range, scenario: Scenario | None, nodes: int, jobs: int, add: Callable[[SeedReport], None]
) -> None:
    from concurrent.futures import ProcessPoolExecutor
    from functools import partial
    from multiprocessing import get_context

    from motet.overlay.sim.scenario import run_seed

    run_one = partial(run_seed, scenario=scenario, nodes=nodes)
    if jobs == 1:
        for seed in seeds:
            add(run_one(seed))
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for report in pool.map(run_one, seeds, chunksize=4):
            add(report)


def _run_on_spark(seeds: range, scenario: Scenario | None, nodes: int, add: Callable[[SeedReport], None]) -> None:
    from motet.overlay.sim.scenario import run_seed
    from motet.spark.session import session

    context = session().sparkContext
    slices = min(len(seeds), 8 * context.defaultParallelism)
    for report in context.parallelize(seeds, slices).map(lambda seed: run_seed(seed, scenario, nodes=nodes)).collect():
        add(report)


def _write_page(path: Path, scenario: Scenario, seed: int) -> None:
    from motet.overlay.sim.ring_drawing import draw_page
    from motet.overlay.sim.rings import SimulatedRing
    from motet.overlay.sim.scenario import ScenarioRun

    frames: list[tuple[str, str, dict[int, str]]] = []

    def observe(ring: SimulatedRing, what: str) -> None:
        misplaced = {contact.address for contact in ring.misplaced()}
        states = {
            ring.contact(address).identifier: "other"
            if not ring.pastry(address).is_active
            else "misplaced"
            if address in misplaced
            else "active"
            for address in ring.simulator.hosts
        }
        is_new = not frames or states != frames[-1][2]
        if is_new or what.split(" ")[2:3] in (["partition"], ["heal"], ["pause"]):
            frames.append((f"{ring.simulator.now / 1e6:.0f} s", what.partition(": ")[2], states))

    ScenarioRun(scenario, seed=seed, observer=observe).run()
    path.write_text(draw_page(f"Seed {seed}", frames), encoding="utf-8")


def _print(report: SeedReport, *, as_json: bool) -> None:
    if as_json:
        output.print_json(report.to_dict())
    elif report.shrunk is not None:
        result = report.result
        print(f"seed {report.seed}: violated at {result.at:g} s, after step {result.step}")
        for violation in result.violations[:5]:
            print(f"  {violation}")
        print(f"  the smallest schedule that still fails has {len(report.shrunk.steps)} steps:")
        for step in report.shrunk.steps:
            print(f"    {step}")
        print(f"  run it again: motet simulate --seeds {report.seed}")
