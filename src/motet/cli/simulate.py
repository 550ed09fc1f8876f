"""`motet simulate`: run an overlay network in the deterministic simulator, from a scenario file or from seeds."""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motet.cli import output
from motet.model.errors import UsageError

if TYPE_CHECKING:
    from motet.overlay.sim.scenario import Scenario
    from motet.overlay.sim.scenario_run import ScenarioRun, SeedReport

HELP = "run a peer-to-peer overlay in the deterministic simulator and check what must hold"
EXAMPLES = """\
  motet simulate --seeds 1-1000                 # random scenarios: crashes, joins, partitions, pauses, lost messages
  motet simulate --seeds 1-1000 --jobs 2        # the same on two processes
  motet simulate --seeds 1-100 --protocol can
  motet simulate --seeds 1-100000 --engine spark
  motet simulate --seeds 42 --show              # the schedule of seed 42, as a scenario file, without running it
  motet simulate --scenario outage.yaml --seeds 1-20 --json
  motet simulate --scenario outage.yaml --seeds 1-20 --set loss=0,0.05,0.1 --set nodes=20,100 --engine spark
  motet simulate --seeds 42 --page run.html     # pictures of the network, step by step
  motet simulate --seeds 42 --protocol can --picture zones.png --axes 1,3
"""
ROUND = 32  # seeds for each core in one Spark job: the next job begins when all of them have ended

ScenarioSettings = dict[str, Any]
SweepCase = tuple[ScenarioSettings, int]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--seeds", default="1-10", metavar="A-B", help="one seed or a range; a seed gives the same run everywhere")
    add("--scenario", metavar="FILE", help="a scenario file (YAML or JSON) instead of random scenarios")
    add("--protocol", choices=["pastry", "can"], help="of random scenarios (default: pastry)")
    add("--nodes", type=int, metavar="N", help="nodes of a random scenario (default: 20 for pastry, 14 for can)")
    add(
        "--set",
        action="append",
        default=[],
        metavar="KEY=V[,V...]",
        help="replace a setting of each scenario; with several values, run every seed with each of them; repeatable",
    )
    add("--engine", choices=["local", "spark"], default="local", help="where the seeds run (default: local)")
    add("--jobs", type=int, default=1, metavar="N", help="worker processes of the local engine (default: 1)")
    add("--show", action="store_true", help="print the scenario of the first seed and do not run it")
    add("--page", metavar="FILE", help="write a page with pictures of the first seed's run, step by step (HTML)")
    add(
        "--picture",
        metavar="FILE",
        help="write a picture of the network at the end of the first seed's run (SVG or PNG)",
    )
    add("--axes", metavar="I,J", help="the dimensions in which the zones of a CAN are drawn (default: 1,2)")
    add("--json", action="store_true", help="print one JSON object for each seed")


def run(args: argparse.Namespace) -> int:
    from motet.overlay.sim.scenario import load_scenario

    seeds = _seeds(args.seeds)
    if args.jobs < 1 or not 8 <= (args.nodes or 8) <= 10_000:
        raise UsageError("--jobs must be at least 1, --nodes 8 to 10000", advice="Omit them for the defaults.")
    if args.scenario and (args.nodes or args.protocol):
        option = "--nodes" if args.nodes else "--protocol"
        raise UsageError(f"{option} is for random scenarios", advice="Write it into the scenario file, or use --set.")
    if args.engine == "spark" and args.jobs > 1:
        raise UsageError("--jobs is for the local engine", advice="Spark uses the cores of its master.")
    make = partial(_scenario, load_scenario(Path(args.scenario)) if args.scenario else None, args.nodes, args.protocol)
    cases = [(settings, seed) for settings in _sweep(args.set) for seed in seeds]
    for settings, _ in cases[:: len(seeds)]:  # wrong settings are refused before anything runs
        make((settings, seeds[0]))
    _check_pictures(args, make(cases[0]))
    if args.show:
        output.print_json(make(cases[0]).to_dict())
        return 0
    if args.page or args.picture:
        _draw(args, make(cases[0]), seeds[0])
    return _run_cases(cases, make, args)


def _run_cases(cases: list[SweepCase], make: Callable[[SweepCase], Scenario], args: argparse.Namespace) -> int:
    reports: list[SeedReport] = []
    with output.record_progress("simulating", len(cases)) as advance:
        results = _run_on_spark(cases, make) if args.engine == "spark" else _run_here(cases, make, args.jobs)
        for (settings, _), report in zip(cases, results, strict=True):
            reports.append(report)
            advance(len(reports))
            _print(report, settings, args)
    if not args.json and args.set:
        _print_sweep(cases, reports)
    elif not args.json:
        output.print_fields({"seeds": len(reports), "with violations": sum(r.shrunk is not None for r in reports)})
    return 1 if any(report.shrunk is not None for report in reports) else 0


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    if not first.isdigit() or (last and not last.isdigit()) or ("-" in text and not last):
        raise UsageError(f"--seeds {text!r} is no range", advice="Write one seed, such as 42, or a range: 1-1000.")
    seeds = range(int(first), int(last or first) + 1)
    if not seeds:
        raise UsageError(f"--seeds {text} is empty", advice="The first seed must not be greater than the last.")
    return seeds


def _sweep(options: list[str]) -> list[ScenarioSettings]:
    """Every combination of the values of `--set`, as settings of a scenario file; one empty one without the option."""
    import yaml

    values: dict[str, list[Any]] = {}
    for option in options:
        key, equals, texts = option.partition("=")
        if not equals or not key or key in ("steps", "protocol") or key in values:
            raise UsageError(f"--set {option!r} sets no setting", advice="Write KEY=VALUE once, such as loss=0,0.05.")
        values[key] = [yaml.safe_load(text) for text in texts.split(",")]
    return [dict(zip(values, combination, strict=True)) for combination in product(*values.values())]


def _scenario(given: Scenario | None, nodes: int | None, protocol: str | None, case: SweepCase) -> Scenario:
    """The scenario of a case: the one of a file or the random one of its seed, with its settings."""
    from motet.overlay.sim.random_scenario import random_scenario
    from motet.overlay.sim.scenario import PASTRY, parse_scenario

    settings, seed = case
    scenario = given or random_scenario(seed, nodes=nodes, protocol=protocol or PASTRY)
    return parse_scenario(scenario.to_dict() | settings, "--set") if settings else scenario


def _run_case(make: Callable[[SweepCase], Scenario], case: SweepCase) -> SeedReport:
    from motet.overlay.sim.scenario_run import run_seed

    return run_seed(case[1], make(case))


def _run_here(cases: list[SweepCase], make: Callable[[SweepCase], Scenario], jobs: int) -> Iterator[SeedReport]:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    if jobs == 1:
        yield from map(partial(_run_case, make), cases)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(partial(_run_case, make), cases, chunksize=4)


def _run_on_spark(cases: list[SweepCase], make: Callable[[SweepCase], Scenario]) -> Iterator[SeedReport]:
    """Each job runs some seeds on each core; its reports are pickled by these workers themselves."""
    import pickle

    from motet.spark.session import brief_settings, session

    spark = session(config=brief_settings())
    cores = int(spark.conf.get("spark.default.parallelism", "") or spark.sparkContext.defaultParallelism)
    for start in range(0, len(cases), ROUND * cores):
        size = min(ROUND * cores, len(cases) - start)
        indices = spark.range(start, start + size, 1, min(size, 4 * cores))
        rows = indices.mapInArrow(partial(_run_rows, make, cases), "case long, report binary").collect()
        for row in sorted(rows, key=lambda row: row["case"]):
            yield pickle.loads(row["report"])  # noqa: S301  pickled by `_run_rows`


def _run_rows(make: Callable[[SweepCase], Scenario], cases: list[SweepCase], batches: Iterator[Any]) -> Iterator[Any]:
    """Run the cases with the indices of Arrow batches, one row at a time."""
    import pickle

    import pyarrow as pa

    for batch in batches:
        for index in batch.column(0).to_pylist():
            report = pickle.dumps(_run_case(make, cases[index]))
            yield pa.RecordBatch.from_pydict({"case": [index], "report": [report]})


def _draw(args: argparse.Namespace, scenario: Scenario, seed: int) -> None:
    """Run a scenario for its pictures: the page of all steps, the network at the end, or both."""
    from motet.overlay.sim.drawing import draw_page, write_picture
    from motet.overlay.sim.scenario_run import CanRun, make_run

    frames: list[tuple[str, str, str]] = []

    def observe(state: ScenarioRun, what: str) -> None:
        picture = state.picture()
        is_new = not frames or picture != frames[-1][2]
        if is_new or what.split(" ")[2:3] in (["partition"], ["heal"], ["pause"]):
            frames.append((f"{state.simulator.now / 1e6:.0f} s", what.partition(": ")[2], picture))

    run = make_run(scenario, seed=seed, observer=observe if args.page else None)
    if isinstance(run, CanRun) and args.axes:
        run.axes = _axes(args.axes, scenario.dimensions)
    run.run()
    if args.page:
        Path(args.page).write_text(draw_page(f"Seed {seed}", run.legend, frames), encoding="utf-8")
    if args.picture:
        write_picture(Path(args.picture), run.picture())


def _check_pictures(args: argparse.Namespace, scenario: Scenario) -> None:
    """Refuse pictures that cannot be drawn before anything runs."""
    from motet.overlay.sim.drawing import check_picture

    if args.picture:
        check_picture(Path(args.picture))
    if args.page and not Path(args.page).parent.is_dir():
        raise UsageError(f"{Path(args.page).parent} is no directory", advice="Make it first.")
    if args.axes and (scenario.protocol != "can" or not (args.page or args.picture)):
        raise UsageError("--axes is for pictures of a CAN", advice="Add --picture or --page, and --protocol can.")
    if args.axes:
        _axes(args.axes, scenario.dimensions)


def _axes(text: str, dimensions: int) -> tuple[int, int]:
    """The two dimensions that an option names, counted from 0."""
    numbers = [int(part) - 1 for part in text.split(",") if part.isascii() and part.isdigit()]
    is_right = text.count(",") == 1 and len(set(numbers)) == 2 and all(0 <= number < dimensions for number in numbers)
    if not is_right:
        advice = f"Name two of the dimensions 1 to {dimensions}, such as 1,2." if dimensions > 1 else "It has only one."
        raise UsageError(f"--axes {text} are not two dimensions of the space", advice=advice)
    return numbers[0], numbers[1]


def _print(report: SeedReport, settings: ScenarioSettings, args: argparse.Namespace) -> None:
    if args.json:
        output.print_json(({"settings": settings} if settings else {}) | report.to_dict())
    elif report.shrunk is not None:
        result = report.result
        with_ = f" with {_text_of(settings)}" if settings else ""
        print(f"seed {report.seed}{with_}: violated at {result.at:g} s, after step {result.step}")
        for violation in result.violations[:5]:
            print(f"  {violation}")
        count = len(report.shrunk.steps)
        print(f"  the smallest schedule that still fails has {count} step{'' if count == 1 else 's'}:")
        for step in report.shrunk.steps:
            print(f"    {step}")
        print(f"  run it again: {_command(report.seed, settings, args)}")


def _command(seed: int, settings: ScenarioSettings, args: argparse.Namespace) -> str:
    """The command that runs a seed again."""
    options = {"--scenario": args.scenario, "--protocol": args.protocol, "--nodes": args.nodes}
    given = [word for name, value in options.items() if value for word in (name, str(value))]
    for key, value in settings.items():
        given += ["--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
    return shlex.join(["motet", "simulate", "--seeds", str(seed), *given])


def _print_sweep(cases: list[SweepCase], reports: list[SeedReport]) -> None:
    """One line for each combination of settings: what its seeds violated, and what became of its lookups."""
    by_settings: dict[str, list[SeedReport]] = {}
    for (settings, _), report in zip(cases, reports, strict=True):
        by_settings.setdefault(_text_of(settings), []).append(report)
    rows = []
    for text, group in by_settings.items():
        figures = [report.result.figures for report in group]
        hops = [hop for figure in figures for hop in figure.hops]
        bad = sum(figure.failed + figure.misdelivered for figure in figures)
        failed = sum(report.shrunk is not None for report in group)
        mean = f"{statistics.mean(hops):.2f}" if hops else ""
        rows.append((text, len(group), failed, sum(figure.started for figure in figures), bad, mean))
    output.print_table(rows, headers=["settings", "seeds", "violated", "lookups", "failed or wrong", "mean hops"])


def _text_of(settings: ScenarioSettings) -> str:
    return " ".join(f"{key}={value}" for key, value in settings.items())
