/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as text, whatever the locale of the process: a library or a user's environment must not
 * turn 0.5 into 0,5 in a file.
 */
#ifndef PST_BASE_NUMBER_H
#define PST_BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The fewest digits that read back as the same double, with an exponent where "%.15g" has one.
   "inf", "-inf" and "nan" if it is not finite. text must hold 32 bytes; returns it. */
char *pst_number_format(char *text, double value);
/* To the nearest multiple of 10^-decimals, without zeros at the end; decimals from 0 to 15. */
char *pst_number_format_to(char *text, double value, int decimals);
/* To twelve digits, for quotients of any size: the rest may be rounding. */
char *pst_number_format_figure(char *text, double value);

/*
 * A decimal number "-12", "0.5", "1e-3" at the start of text; *ret_end is the first character
 * after it. No leading white space, no hexadecimal, no inf or nan. False if there is none or it is
 * too large.
 */
bool pst_number_parse(const char *text, const char **ret_end, double *ret_value);

/* Like pst_number_parse, with more digits: 64-bit integers are exact if long double has 64 bits. */
bool pst_number_parse_long(const char *text, const char **ret_end, long double *ret_value);

/* A whole text as a decimal int64. */
bool pst_number_parse_int(const char *text, int64_t *ret_value);

#endif
