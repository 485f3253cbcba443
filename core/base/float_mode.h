/* SPDX-License-Identifier: Apache-2.0
 *
 * The float mode of the calling thread: rounding, subnormals, traps, precision. Plugins and loaded
 * libraries may change it (`-ffast-math` links code that does), which changes results.
 */
#ifndef PST_BASE_FLOAT_MODE_H
#define PST_BASE_FLOAT_MODE_H

#include <stdbool.h>
#include <stdint.h>

/* The control bits: of x86 those of MXCSR, and above them the x87 control word. */
uint64_t pst_float_mode(void);
/* Sets the mode that a process begins with. Returns false if the thread had it already. */
bool pst_float_mode_reset(void);

#endif
