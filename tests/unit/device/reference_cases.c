/* SPDX-License-Identifier: Apache-2.0
 *
 * The operators that gradient and type tests go through: every kind, with each of its options.
 */
#include "reference_rig.h"

#define SHAPE(...) \
    {sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), {__VA_ARGS__}}
#define TRAINING (PST_CALL_TRAINING | PST_CALL_REPLAY) /* replay: statistics stay as they are */

static const struct pst_op none;
