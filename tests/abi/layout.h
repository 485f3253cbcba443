/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests of the published ABI are written in: sizes, offsets, values.
 */
#ifndef PENSTOCK_TESTS_ABI_LAYOUT_H
#define PENSTOCK_TESTS_ABI_LAYOUT_H

#include <penstock/penstock.h>

#if defined(__LP64__)
#define SIZE(type, n)      _Static_assert(sizeof(struct type) == (n), "size of " #type)
#define AT(type, field, n) _Static_assert(offsetof(struct type, field) == (n), #type "." #field)
#else
#define SIZE(type, n)      _Static_assert(sizeof(struct type) > 0, "")
#define AT(type, field, n) _Static_assert(offsetof(struct type, field) <= (n), "")
#endif
#define VALUE(name, n) _Static_assert((name) == (n), #name)

#endif
