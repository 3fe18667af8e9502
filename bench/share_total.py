"""Measures what it costs to share a GPU: the work of 2 to 8 containers that keep their queues full
of kernels of 1 ms, over that of one alone in the same round, by the accounting of the simulated
GPU's engines. Policies preempt, weight and soft. Needs root. Prints every round; the last line is
the worst policy and number of containers, the median of its rounds.
"""
import statistics

import shares

POLICIES = {"preempt": (), "weight": ("--weight", 3), "soft": ("--compute", 10)}
NUMBERS = (2, 4, 8)
ROUNDS = 3
WINDOW_S, SETTLE_S = 3, 1


def total(node, flags, number):
    """Returns the percentage of the GPU's time that all get together, and a remark."""
    got, late = shares.window(node, [(flags, shares.queued(1000))] * number, SETTLE_S, WINDOW_S)
    return sum(got), late


def measure(node, _):
    ratios = {(policy, number): [] for policy in POLICIES for number in NUMBERS}
    for number_of_round in range(1, ROUNDS + 1):
        for policy, flags in POLICIES.items():
            shares.set_policy(node, policy)
            alone, late = total(node, flags, 1)
            for number in NUMBERS:
                together, later = total(node, flags, number)
                ratios[policy, number].append(100 * together / alone)
                print("round %d, %s: alone %.2f %%, %d together %.2f %%: %.2f %%%s" %
                      (number_of_round, policy, alone, number, together,
                       ratios[policy, number][-1], late or later), flush=True)
    for (policy, number), found in ratios.items():
        print("%s, %d containers: %.2f %%" % (policy, number, statistics.median(found)))
    print("share-total: %.2f %%" % min(map(statistics.median, ratios.values())))


if __name__ == "__main__":
    shares.run(measure)
