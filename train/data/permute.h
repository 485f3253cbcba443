/* SPDX-License-Identifier: Apache-2.0
 *
 * A keyed permutation of 0 ... n-1 without a table: a Feistel network over the smallest even number
 * of bits that holds n, Philox as its round function, values past the end walked on until they fall
 * inside (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002: cycle walking).
 * Shuffles any amount of data, and any position can be asked for on its own.
 */
#ifndef PST_DATA_PERMUTE_H
#define PST_DATA_PERMUTE_H

#include <stdint.h>

/* Where position i < n goes; n >= 1, at most 2^62. Pure. */
uint64_t pst_permute(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t i);

#endif
