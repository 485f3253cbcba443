/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to graphpipe: the memory behind gp_memo_find.
 */
#ifndef GRAPHPIPE_MEMO_H
#define GRAPHPIPE_MEMO_H

#include "probe.h"

void gp_memo_create(struct gp_memo **ret_memo);
/* Forgets all states. */
void gp_memo_clear(struct gp_memo *memo);

#endif
