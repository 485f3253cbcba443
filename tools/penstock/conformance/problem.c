/* SPDX-License-Identifier: Apache-2.0 */
#include "conformance/problem.h"

uint64_t pst_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint64_t pst_random_between(uint64_t *state, uint64_t low, uint64_t high)
{
    return low + pst_random(state) % (high - low + 1);
}
