/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests of the published ABI are written in: sizes with the offsets of all fields, values.
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

/* LAYOUT(type, size, field, offset, field, offset, ...), of up to 18 fields. */
#define AT_1(type, field, n) AT(type, field, n)
#define AT_2(type, field, n, ...)                                                                  \
    AT(type, field, n);                                                                            \
    AT_1(type, __VA_ARGS__)
#define AT_3(type, field, n, ...)                                                                  \
    AT(type, field, n);                                                                            \
    AT_2(type, __VA_ARGS__)
#define AT_4(type, field, n, ...)                                                                  \
    AT(type, field, n);                                                                            \
    AT_3(type, __VA_ARGS__)
#define AT_5(type, field, n, ...)                                                                  \
    AT(type, field, n);                                                                            \
    AT_4(type, __VA_ARGS__)
#define AT_6(type, field, n, ...)                                                                  \
    AT(type, field, n);                                                                            \
    AT_5(type, __VA_ARGS__)
#define AT_7(type, field, n, ...)                                                                  \
    AT(type, field, n);                                                                            \
    AT_6(type, __VA_ARGS__)
#define AT_8(type, field, n, ...)                                                                  \
    AT(type, field, n);                                                                            \
    AT_7(type, __VA_ARGS__)
#define AT_9(type, field, n, ...)                                                                  \
    AT(type, field, n);                                                                            \
    AT_8(type, __VA_ARGS__)
#define AT_10(type, field, n, ...)                                                                 \
    AT(type, field, n);                                                                            \
    AT_9(type, __VA_ARGS__)
#define AT_11(type, field, n, ...)                                                                 \
    AT(type, field, n);                                                                            \
    AT_10(type, __VA_ARGS__)
#define AT_12(type, field, n, ...)                                                                 \
    AT(type, field, n);                                                                            \
    AT_11(type, __VA_ARGS__)
#define AT_13(type, field, n, ...)                                                                 \
    AT(type, field, n);                                                                            \
    AT_12(type, __VA_ARGS__)
#define AT_14(type, field, n, ...)                                                                 \
    AT(type, field, n);                                                                            \
    AT_13(type, __VA_ARGS__)
#define AT_15(type, field, n, ...)                                                                 \
    AT(type, field, n);                                                                            \
    AT_14(type, __VA_ARGS__)
#define AT_16(type, field, n, ...)                                                                 \
    AT(type, field, n);                                                                            \
    AT_15(type, __VA_ARGS__)
#define AT_17(type, field, n, ...)                                                                 \
    AT(type, field, n);                                                                            \
    AT_16(type, __VA_ARGS__)
#define AT_18(type, field, n, ...)                                                                 \
    AT(type, field, n);                                                                            \
    AT_17(type, __VA_ARGS__)
#define AT_COUNT(f1, n1, f2, n2, f3, n3, f4, n4, f5, n5, f6, n6, f7, n7, f8, n8, f9, n9, f10, n10, \
                 f11, n11, f12, n12, f13, n13, f14, n14, f15, n15, f16, n16, f17, n17, f18, n18,   \
                 name, ...)                                                                        \
    name
#define AT_ALL(type, ...)                                                                          \
    AT_COUNT(__VA_ARGS__, AT_18, 0, AT_17, 0, AT_16, 0, AT_15, 0, AT_14, 0, AT_13, 0, AT_12, 0,    \
             AT_11, 0, AT_10, 0, AT_9, 0, AT_8, 0, AT_7, 0, AT_6, 0, AT_5, 0, AT_4, 0, AT_3, 0,    \
             AT_2, 0, AT_1, 0)                                                                     \
    (type, __VA_ARGS__)
#define LAYOUT(type, size, ...)                                                                    \
    SIZE(type, size);                                                                              \
    AT_ALL(type, __VA_ARGS__)

#endif
