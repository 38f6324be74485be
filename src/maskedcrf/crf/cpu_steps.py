"""Steps of eight rows at once in numba, split into a dense block, which most of them are in, and lists of what is left.

In BIO the steps to O and B- tags are a block, and each I- tag has two predecessors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maskedcrf.crf.cpu_lanes import LANES, compiled


@compiled
def _many(steps: Any) -> Any:
    """Which tags have at least half as many legal steps as the one with the most."""
    most = 1
    for k in range(steps.size):
        most = max(most, steps[k])
    found, count = np.empty(steps.size, np.int64), 0
    for k in range(steps.size):
        found[count] = k
        count += 2 * steps[k] >= most
    return found[:count]


@compiled
def place(q: int, s: int, m: int, n: int) -> int:
    """Where the mass of the block's step from source s to target q is.

    Those of eight targets lie side by side; of the last ones, if they are not eight, a target after the other.
    """
    return (q // 8 * n + s) * 8 + q % 8 if q < m // 8 * 8 else q * n + s


@compiled
def _block(legal: Any) -> Any:
    """Sources and targets of the block, of legal steps (D, D)."""
    leaving, arriving = np.zeros(legal.shape[0], np.int64), np.zeros(legal.shape[0], np.int64)
    for source in range(leaving.size):
        for target in range(leaving.size):
            leaving[source] += legal[source, target]
            arriving[target] += legal[source, target]
    sources, targets = _many(leaving), _many(arriving)
    return sources, targets[:-1] if targets.size % 4 == 1 else targets  # one more tile for one target is a waste


@compiled
def split_steps(masses: Any) -> Any:
    """Step masses (D, D) [source, target] as a plan of integers and the masses that it uses.

    The plan: numbers m and n of the block's targets and sources; its targets; its sources; for each of the D tags,
    whether it is a target of the block; where the list of each tag begins, and D + 1 their end; the sources on the
    lists. Tags are times LANES. The masses: the block's (see `place`), then the lists'.
    """
    size = masses.shape[0]
    legal = masses != 0.0
    sources, targets = _block(legal)
    m, n = targets.size, sources.size
    outside = np.ones(size, np.bool_)
    plan, used = np.zeros(2 + m + n + 2 * size + 1 + size * size, np.int64), np.empty(size * size)
    inside, begins, members = 2 + m + n, 2 + m + n + size, 2 + m + n + 2 * size + 1
    plan[0], plan[1] = m, n
    for s in range(n):
        plan[2 + m + s], outside[sources[s]] = sources[s] * LANES, False
    for q in range(m):
        plan[2 + q], plan[inside + targets[q]] = targets[q] * LANES, 1
        for s in range(n):
            used[place(q, s, m, n)] = masses[sources[s], targets[q]]
    count = 0
    for target in range(size):
        plan[begins + target] = count
        for source in range(size):
            if legal[source, target] and (outside[source] or not plan[inside + target]):
                plan[members + count], used[m * n + count] = source * LANES, masses[source, target]
                count += 1
    plan[begins + size] = count
    return plan, used
