/* SPDX-License-Identifier: Apache-2.0
 *
 * The width of standard output, and whether it shows UTF-8.
 */
#ifndef PST_COMMANDS_TERMINAL_H
#define PST_COMMANDS_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the variable COLUMNS, else the columns of the terminal; 0 if there is no terminal. */
uint32_t pst_terminal_columns(void);
/* Like pst_terminal_columns, but 80 instead of 0. */
uint32_t pst_terminal_width(void);

/* By the variables that decide; nothing here calls setlocale. */
bool pst_terminal_utf8(void);

#endif
