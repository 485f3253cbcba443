/* SPDX-License-Identifier: Apache-2.0
 *
 * Tells core which modules come with penstock: core itself names none.
 */
#ifndef PST_COMMANDS_MODULES_H
#define PST_COMMANDS_MODULES_H

#include "host/plugin_host.h"

void pst_tell_modules(void);

#endif
