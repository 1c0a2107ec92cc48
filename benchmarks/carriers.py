"""What a round costs: ``python -m benchmarks.carriers``.

A coordinator's carrier and three sites' as processes on this machine, with mutual TLS;
100 kB there and 100 kB back. Then how long a killed carrier is away.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.federations import SITES, make_consortium

from fedrulefit.experiments.units import machine
from fedrulefit.federation.carrier.keeper import Keeper
from fedrulefit.federation.coordinator.process import Calls
from fedrulefit.federation.kits.kit import Kit
from fedrulefit.federation.kits.provision import provision
from fedrulefit.federation.site.process import answer_calls

BODY = bytes(100_000)
ROUNDS = 200


def keep(kit: Kit) -> Keeper:
    keeper = Keeper(kit)
    keeper.start()
    return keeper


def serve(keeper: Keeper) -> None:
    while True:
        answer_calls(keeper.next(), lambda envelope: BODY)


def attend(keeper: Keeper, calls: Calls) -> None:
    while True:
        calls.attend(keeper.next())


def wait(calls: Calls, site: str) -> float:
    start = time.perf_counter()
    while calls.send(site, b"hello", 5.0) is None:
        time.sleep(0.02)
    return time.perf_counter() - start


def main() -> None:
    print(f"Machine: {machine()}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        kits = provision(make_consortium(), Path(folder))
        keepers = {name: keep(Kit.load(kit, "carrier")) for name, kit in kits.items()}
        calls = Calls()
        lead = keepers["coordinator"]
        threading.Thread(target=attend, args=(lead, calls), daemon=True).start()
        for site in SITES:
            threading.Thread(target=serve, args=(keepers[site],), daemon=True).start()
        for site in SITES:
            wait(calls, site)
        seconds = []
        with ThreadPoolExecutor(3) as pool:
            for _ in range(ROUNDS):
                start = time.perf_counter()
                answers = list(pool.map(lambda site: calls.send(site, BODY, 10.0), SITES))
                seconds.append(time.perf_counter() - start)
                assert all(answers)
        cuts = statistics.quantiles(seconds, n=10)
        print(f"a round: median {cuts[4]:.4f} s, 10 % to 90 %: {cuts[0]:.4f} to {cuts[8]:.4f} s")
        for name in ("south", "coordinator"):
            process = keepers[name]._process
            assert process is not None
            process.kill()
            time.sleep(0.05)
            away = max(wait(calls, site) for site in SITES)
            print(f"the carrier of {name} killed: all there again after {away:.1f} s", flush=True)
        for keeper in keepers.values():
            keeper.end()


if __name__ == "__main__":
    main()
