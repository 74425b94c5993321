"""Loss and processor seconds of ``best`` for 20 unequal features on 5 neurons, seed by seed.

``python tests/benchmarks/search_quality.py [seeds]`` prints them, and how far each is above the least.
"""

import sys
import time

import numpy as np

import superposition as sp


def main(seeds: int) -> None:
    law, losses = sp.Features(20, p=0.05, importance=0.9 ** np.arange(20)), []
    sp.best(law, 5, starts=1, progress=False)  # kernels are compiled, or loaded
    for seed in range(seeds):
        wall, cpu = time.perf_counter(), time.process_time()
        losses.append(sp.best(law, 5, rng=seed, progress=False).loss)
        seconds = f"{time.perf_counter() - wall:.1f} s, {time.process_time() - cpu:.1f} s of processors"
        print(f"seed {seed}: loss {losses[-1]:.9f}, {seconds}", flush=True)
    above = np.array(losses) / min(losses) - 1.0
    print("above the least:", " ".join(f"{share:.0e}" for share in above))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
