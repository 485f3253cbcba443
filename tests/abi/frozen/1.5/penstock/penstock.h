/* SPDX-License-Identifier: Apache-2.0
 *
 * Of the headers of ABI 1.5, those that the three plugins beside this folder read.
 */
#ifndef PENSTOCK_PENSTOCK_H
#define PENSTOCK_PENSTOCK_H

#include "memopt.h"
#include "partitioner.h"
#include "scheduler.h"
#include "simple.h"

#include "ext/eval.h"

#endif
