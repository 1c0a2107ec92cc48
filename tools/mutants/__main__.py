"""The command: draw mutants, try them, print the survivors."""

from __future__ import annotations

import argparse
import difflib
import queue
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.mutants.explained import draft, key_of, outdated, read_explained, read_keys
from tools.mutants.mutations import Mutant, find_mutants
from tools.mutants.trial import ROOMS, ROOT, Copy, Test, Verdict, choose_tests

EXPLAINED = ROOT / "tests" / "mutants.toml"


def main() -> int:
    """Return 0 if every mutant that was tried is noticed by a test, or explained."""
    asked = _read_arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # tells what it found, and tidies up
    sources = {file: (ROOT / file).read_text(encoding="utf-8") for file in _files()}
    everything = [m for file, source in sources.items() for m in find_mutants(file, source)]
    reasons = read_explained(EXPLAINED)
    old = outdated(reasons, everything)
    for key in old:
        print(f"{EXPLAINED.name} explains what is no longer there: {': '.join(key)}")
    wanted = [m for m in everything if not asked.file or any(part in m.file for part in asked.file)]
    open_ones = [m for m in wanted if key_of(m) not in reasons]
    if asked.again:
        named = read_keys(asked.again)
        open_ones = [m for m in open_ones if key_of(m) in named]
    random.Random(asked.seed).shuffle(open_ones)
    drawn = open_ones[: asked.sample]
    if asked.list:
        for mutant in drawn:
            print(f"{mutant.file}:{mutant.number}: {mutant.change}")
        return 0
    n_explained = sum(key_of(m) in reasons for m in wanted)
    print(f"{len(wanted)} mutants, {n_explained} of them explained; {len(drawn)} to be tried")
    survivors, counts = _try_all(drawn, sources, asked)
    told = ", ".join(f"{n} {verdict.value}" for verdict, n in counts.items())
    print(f"tried {sum(counts.values())} of {len(drawn)}: {told or 'none'}")
    if asked.draft:
        asked.draft.write_text("\n".join(map(draft, survivors)), encoding="utf-8")
    return 1 if survivors or old else 0


def _read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=None, help="try so many, drawn by the seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--file",
        action="append",
        default=[],
        help="only files whose path contains this; repeatable",
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin none after this")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--list", action="store_true", help="name the mutants, try none")
    parser.add_argument("--again", type=Path, help="only those that such a file names")
    parser.add_argument("--draft", type=Path, help="write entries for the survivors to this file")
    return parser.parse_args()


def _files() -> list[str]:
    paths = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    return [path.relative_to(ROOT).as_posix() for path in paths]


def _try_all(
    drawn: Sequence[Mutant], sources: dict[str, str], asked: argparse.Namespace
) -> tuple[list[Mutant], Counter[Verdict]]:
    """Try mutants on several copies at a time; print each survivor when it is found."""
    survivors: list[Mutant] = []
    counts: Counter[Verdict] = Counter()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        made = [Copy(Path(folder) / str(k)) for k in range(asked.jobs)]
        tests = made[0].note_tests()
        print(f"{len(tests)} tests pass on the sound code", flush=True)
        for copy in made:
            copies.put(copy)
        deadline = time.monotonic() + asked.seconds

        def attempt(mutant: Mutant) -> tuple[Mutant, Verdict | None, list[Test]]:
            chosen = choose_tests(mutant, tests)
            if time.monotonic() > deadline:
                return mutant, None, chosen
            copy = copies.get()
            try:
                return mutant, copy.try_mutant(mutant, chosen), chosen
            finally:
                copies.put(copy)

        pool = ThreadPoolExecutor(asked.jobs)
        try:
            for mutant, verdict, chosen in pool.map(attempt, drawn):
                if verdict is None:
                    continue
                counts[verdict] += 1
                if sum(counts.values()) % 50 == 0:
                    print(f"… {sum(counts.values())} of {len(drawn)}", flush=True)
                if verdict in {Verdict.SURVIVED, Verdict.NOT_RUN}:
                    survivors.append(mutant)
                    print(_describe(mutant, verdict, len(chosen), sources[mutant.file]), flush=True)
        except KeyboardInterrupt:
            print("stopped")
        finally:
            pool.shutdown(cancel_futures=True)
    return survivors, counts


def _describe(mutant: Mutant, verdict: Verdict, n_tests: int, source: str) -> str:
    before, after = source.splitlines(), mutant.apply(source).splitlines()
    diff = list(difflib.unified_diff(before, after, n=0, lineterm=""))[3:]
    return "\n".join(
        [f"{mutant.file}:{mutant.number}: {verdict.value} ({n_tests} tests)", *diff, ""]
    )


if __name__ == "__main__":
    sys.exit(main())
