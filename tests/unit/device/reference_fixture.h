/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads what scripts/record_torch.py wrote. Every function fails the test on what it does not find.
 */
#ifndef PST_TEST_REFERENCE_FIXTURE_H
#define PST_TEST_REFERENCE_FIXTURE_H

#include <jansson.h>

#include "reference_rig.h"

/* tests/data/torch/<name>.json; json_decref() it. */
json_t *fixture_load(const char *name);
const json_t *fixture_get(const json_t *object, const char *key);
uint64_t fixture_integer(const json_t *object, const char *key);

/* Copies an array of exactly n numbers. */
void fixture_numbers(const json_t *array, double *ret_values, uint64_t n);

/* Compares with an array of n numbers; bound is relative to the largest of them. */
void fixture_compare(const char *what, const json_t *array, const double *values, uint64_t n,
                     double bound);

#endif
