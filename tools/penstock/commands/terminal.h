/* SPDX-License-Identifier: Apache-2.0
 *
 * What standard output can show.
 */
#ifndef PST_COMMANDS_TERMINAL_H
#define PST_COMMANDS_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

/* Columns: what the variable COLUMNS says, else those of the terminal; 0 where it is none. */
uint32_t pst_terminal_columns(void);
/* The same, but 80 where it is none. */
uint32_t pst_terminal_width(void);

/* By the variables that decide; nothing here calls setlocale. */
bool pst_terminal_utf8(void);

#endif
